"""The small layers of which the paper builds its modules (appendix A). No module here."""

from __future__ import annotations

from torch import Tensor, nn

from pmn_cl.modules.runtime.arithmetic import products
from pmn_cl.modules.runtime.environment import Environment


class SoftAttention(nn.Module):
    """z(f(k) · g(d_i)): how well each d_i fits the key k; f, g are linear + ReLU, z is linear.

    What comes out are logits: some callers take a softmax of them, others a sigmoid.
    """

    def __init__(self, key: int, data: int, hidden: int) -> None:
        super().__init__()
        self.f = nn.Sequential(nn.Linear(key, hidden), nn.ReLU())
        self.g = nn.Sequential(nn.Linear(data, hidden), nn.ReLU())
        self.z = nn.Linear(hidden, 1)

    def project(self, data: Tensor) -> Tensor:
        """Return g(d) (B, N, hidden), which does not depend on the key."""
        projected: Tensor = self.g(data)
        return projected

    def compare(self, key: Tensor, projected: Tensor) -> Tensor:
        """Return the logits (B, N) of a key (B, key) and g(d).

        z(f·g) = Σ_h z_h f_h g_h + bias: folding z into f makes it one product of matrices.
        """
        weighted: Tensor = self.f(key) * self.z.weight  # (B, hidden)
        return products(weighted, projected) + self.z.bias

    def forward(self, key: Tensor, data: Tensor) -> Tensor:
        """Return the logits (B, N) of a key (B, key) over data (B, N, data)."""
        return self.compare(key, self.project(data))


def receiver(width: int, hidden: int) -> nn.Sequential:
    """Return the paper's receiver: linear layer, batch norm, tanh."""
    return nn.Sequential(nn.Linear(width, hidden), nn.BatchNorm1d(hidden), nn.Tanh())


def perceptron(width: int, hidden: int, out: int) -> nn.Sequential:
    """Return an MLP with one hidden layer."""
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, out))


class GatedTanh(nn.Module):
    """tanh(W x + b) ⊙ σ(W′ x + b′), as in Anderson et al. 2018."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.value = nn.Linear(width, hidden)
        self.gate = nn.Linear(width, hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Return the gated layer's output (B, hidden)."""
        gated: Tensor = self.value(x).tanh() * self.gate(x).sigmoid()
        return gated


class QuestionEncoder(nn.Module):
    """Word vectors and a one-layer GRU; the question is the state after its last word."""

    def __init__(self, words: int, word: int, hidden: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, word, padding_idx=0)
        self.gru = nn.GRU(word, hidden, batch_first=True)

    def forward(self, env: Environment) -> Tensor:
        """Return the question vectors S (B, hidden) of a batch."""
        question = env["question"]  # (B, L), padded with 0
        length = (question != 0).sum(1)
        question = question[:, : max(int(length.max()), 1)]  # no steps for padding alone
        states: Tensor
        states, _ = self.gru(self.words(question))  # (B, L, hidden)
        last = (length.clamp(min=1) - 1)[:, None, None].expand(-1, 1, states.shape[2])
        return states.gather(1, last).squeeze(1)
