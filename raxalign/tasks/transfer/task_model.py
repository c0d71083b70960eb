"""The tensors of a task's model: what its training changed, written and read back."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from raxalign.errors import RaxalignError


class TaskModel(nn.Module):
    """A module of which training changes the parameters that require a gradient."""

    def trained(self) -> dict[str, torch.Tensor]:
        """Copies of the trained tensors, on the CPU: what training may change."""
        return {
            name: p.detach().cpu().clone().contiguous()
            for name, p in self.named_parameters()
            if p.requires_grad
        }

    def frozen(self) -> dict[str, torch.Tensor]:
        """Copies of the tensors that training must leave alone."""
        return {
            name: p.detach().cpu().clone()
            for name, p in self.named_parameters()
            if not p.requires_grad
        }

    def save(self, file: Path) -> None:
        """Write the trained tensors (safetensors)."""
        from safetensors.torch import save_file

        save_file(self.trained(), file)

    def load(self, file: Path) -> None:
        """Take the tensors that `save` wrote; the rest is that of the encoder at hand."""
        from safetensors.torch import load_file

        tensors = load_file(file)
        parameters = {name: p for name, p in self.named_parameters() if p.requires_grad}
        if tensors.keys() != parameters.keys():
            raise RaxalignError(
                f"{file}: was trained on another encoder:"
                f" {sorted(tensors.keys() ^ parameters.keys())[:3]} are in one of the two only"
            )
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(tensors[name])
