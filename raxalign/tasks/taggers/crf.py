"""A linear-chain conditional random field over the words of a sentence, on top of hidden states."""

from __future__ import annotations

import torch
from torch import nn


class ConditionedCrf(nn.Module):
    """Scores of tags and of transitions depend on the hidden state ("bigram"; Ma & Hovy 2016, as in
    the
    tagger of Kulshreshtha et al. 2020).

    p(y | h) is proportional to exp sum_t (u_{y_t} h_t + b_{y_t} + w_{y_{t-1}, y_t} h_t +
    c_{y_{t-1}, y_t}), where y_0 is a tag of its own for the beginning.
    """

    def __init__(self, width: int, n_tags: int) -> None:
        super().__init__()
        self.n_tags = n_tags
        self.tags = nn.Linear(width, n_tags)
        self.transitions = nn.Linear(width, (n_tags + 1) * n_tags)

    def _energies(self, states_BTH: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(scores of the first words' tags (B, K), scores of each later word's tag after each tag
        (B, T - 1, K, K), earlier tag first).
        """
        n = self.n_tags
        # The first word comes after the beginning alone, and no other word does.
        first, later = states_BTH[:, 0], states_BTH[:, 1:]
        weight_SKH = self.transitions.weight.view(n + 1, n, -1)
        bias_SK = self.transitions.bias.view(n + 1, n)
        first_BK = self.tags(first) + nn.functional.linear(first, weight_SKH[n], bias_SK[n])
        pairs = nn.functional.linear(
            later, weight_SKH[:n].reshape(n * n, -1), bias_SK[:n].reshape(-1)
        )
        return first_BK, pairs.reshape(*pairs.shape[:2], n, n) + self.tags(later)[..., None, :]

    def losses(
        self, states_BTH: torch.Tensor, tags_BT: torch.Tensor, mask_BT: torch.Tensor
    ) -> torch.Tensor:
        """-log p(tags | states) of each row, (B,). Rows are filled from the left (`mask_BT` is
        bool) and have one word at least.
        """
        first_BK, later_BTKK = self._energies(states_BTH)
        alpha_BK = first_BK
        for t in range(later_BTKK.shape[1]):
            step_BK = torch.logsumexp(alpha_BK[:, :, None] + later_BTKK[:, t], dim=1)
            alpha_BK = torch.where(mask_BT[:, t + 1, None], step_BK, alpha_BK)
        begin_B = first_BK.gather(1, tags_BT[:, :1])[:, 0]
        index_BT = tags_BT[:, :-1] * self.n_tags + tags_BT[:, 1:]
        went_BT = later_BTKK.flatten(2).gather(2, index_BT[..., None])[..., 0]
        gold_B = begin_B + torch.where(mask_BT[:, 1:], went_BT, went_BT.new_zeros(())).sum(1)
        return torch.logsumexp(alpha_BK, dim=1) - gold_B

    @torch.no_grad()
    def decode(self, states_BTH: torch.Tensor, mask_BT: torch.Tensor) -> list[list[int]]:
        """The most probable tags of each row, as long as the row is (Viterbi)."""
        best_BK, later_BTKK = self._energies(states_BTH)
        stay_BK = torch.arange(self.n_tags, device=best_BK.device).expand_as(best_BK)
        backward = []
        for t in range(1, mask_BT.shape[1]):
            step_BK, came_BK = (best_BK[:, :, None] + later_BTKK[:, t - 1]).max(dim=1)
            counts_B1 = mask_BT[:, t, None]
            best_BK = torch.where(counts_B1, step_BK, best_BK)
            backward.append(torch.where(counts_B1, came_BK, stay_BK))
        path = [best_BK.argmax(1)]
        for came_BK in reversed(backward):
            path.append(came_BK.gather(1, path[-1][:, None])[:, 0])
        tags_BT = torch.stack(path[::-1], dim=1).cpu().tolist()
        lengths = mask_BT.sum(1).tolist()
        return [tags[:length] for tags, length in zip(tags_BT, lengths, strict=True)]
