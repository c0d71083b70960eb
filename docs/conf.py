"""How the pages of docs/ become a site: `make docs` builds it, warnings as errors."""

from raxalign.version import VERSION

project = "raxalign"
author = "the authors of raxalign"
copyright = author  # noqa: A001 Sphinx reads this name
version = release = VERSION

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
templates_path: list[str] = []

# Headings of all pages can be linked to; the generated pages go down to the options of a kind.
myst_heading_anchors = 4
# Docstrings set names between single backticks.
default_role = "literal"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"

html_theme = "furo"
html_title = f"raxalign {VERSION}"
html_copy_source = False
