"""Linear-chain conditional random fields over the words of a sentence, on top of hidden states."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


class StaticCrf(nn.Module):
    """Scores of tags are linear in the hidden state, those of transitions are the same everywhere
    (Lafferty et al. 2001).

    The sums are formed in the order of pytorch-crf, by which earlier results were computed.
    """

    def __init__(self, width: int, n_tags: int) -> None:
        super().__init__()
        self.tags = nn.Linear(width, n_tags)
        self.crf = nn.ParameterDict()
        shapes = {"start_transitions": 1, "end_transitions": 1, "transitions": 2}
        for name, dimensions in shapes.items():
            self.crf[name] = nn.Parameter(torch.empty([n_tags] * dimensions).uniform_(-0.1, 0.1))

    def losses(
        self, states_BTH: torch.Tensor, tags_BT: torch.Tensor, mask_BT: torch.Tensor
    ) -> torch.Tensor:
        """-log p(tags | states) of each row, (B,). Rows are filled from the left (`mask_BT` is
        bool) and have one word at least.
        """
        tags_TBK, gold_TB, mask_TB = self.tags(states_BTH).transpose(0, 1), tags_BT.T, mask_BT.T
        rows, weight_TB = torch.arange(len(tags_BT), device=tags_BT.device), mask_TB.float()
        gold_B = self.crf["start_transitions"][gold_TB[0]] + tags_TBK[0, rows, gold_TB[0]]
        for t in range(1, len(gold_TB)):
            step_B = self.crf["transitions"][gold_TB[t - 1], gold_TB[t]]
            gold_B = gold_B + step_B * weight_TB[t]
            gold_B = gold_B + tags_TBK[t, rows, gold_TB[t]] * weight_TB[t]
        last_B = gold_TB[mask_TB.sum(0) - 1, rows]
        gold_B = gold_B + self.crf["end_transitions"][last_B]
        alpha_BK = self.crf["start_transitions"] + tags_TBK[0]
        for t in range(1, len(gold_TB)):
            step_BK = torch.logsumexp(self._after(alpha_BK, tags_TBK[t]), dim=1)
            alpha_BK = torch.where(mask_TB[t, :, None], step_BK, alpha_BK)
        all_B = torch.logsumexp(alpha_BK + self.crf["end_transitions"], dim=1)
        losses_B: torch.Tensor = all_B - gold_B
        return losses_B

    @torch.no_grad()
    def decode(self, states_BTH: torch.Tensor, mask_BT: torch.Tensor) -> list[list[int]]:
        """The most probable tags of each row, as long as the row is (Viterbi)."""
        tags_BTK = self.tags(states_BTH)
        return viterbi(
            self.crf["start_transitions"] + tags_BTK[:, 0],
            lambda best_BK, t: self._after(best_BK, tags_BTK[:, t]),
            self.crf["end_transitions"],
            mask_BT,
        )

    def _after(self, scores_BK: torch.Tensor, tags_BK: torch.Tensor) -> torch.Tensor:
        """The scores (B, K, K) of a word's tag after each tag of the word before."""
        transitions_KK: torch.Tensor = self.crf["transitions"]
        return scores_BK[:, :, None] + transitions_KK + tags_BK[:, None]


def viterbi(
    best_BK: torch.Tensor,
    after: Callable[[torch.Tensor, int], torch.Tensor],
    end_K: torch.Tensor | float,
    mask_BT: torch.Tensor,
) -> list[list[int]]:
    """Return the best tags of each row, as long as the row is. `best_BK` are the scores of the
    first words' tags, `after` returns those (B, K, K) of word t's tag after each tag of the word
    before, by the best scores up to that, and `end_K` is what a last tag adds.
    """
    backward = []
    for t in range(1, mask_BT.shape[1]):
        step_BK, came_BK = after(best_BK, t).max(dim=1)
        counts_B1 = mask_BT[:, t, None]
        best_BK = torch.where(counts_B1, step_BK, best_BK)
        stay_BK = torch.arange(best_BK.shape[1], device=came_BK.device).expand_as(came_BK)
        backward.append(torch.where(counts_B1, came_BK, stay_BK))
    path = [(best_BK + end_K).argmax(1)]
    for came_BK in reversed(backward):
        path.append(came_BK.gather(1, path[-1][:, None])[:, 0])
    tags_BT = torch.stack(path[::-1], dim=1).cpu().tolist()
    lengths = mask_BT.sum(1).tolist()
    return [tags[:length] for tags, length in zip(tags_BT, lengths, strict=True)]


class ConditionedCrf(nn.Module):
    """Scores of transitions depend on the hidden state too ("bigram"; Ma & Hovy 2016, as in the
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
        first_BK, later_BTKK = self._energies(states_BTH)
        return viterbi(
            first_BK, lambda best_BK, t: best_BK[:, :, None] + later_BTKK[:, t - 1], 0.0, mask_BT
        )
