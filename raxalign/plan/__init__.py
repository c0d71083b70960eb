"""Grid -> Plan: all trials, stages and evaluations as a pure value."""
