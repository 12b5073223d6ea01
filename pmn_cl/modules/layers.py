"""The small layers of which the paper builds its modules (appendix A). No module here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from pmn_cl.modules.recurrent import last_states
from pmn_cl.modules.runtime.environment import Environment


class ScaledLinear(nn.Linear):
    """A linear layer that ``start_scaled`` gives the weights of He et al. (ICCV 2015).

    Its output then varies as much as its input, in front of a ReLU, and starts without bias.
    """

    def start_scaled(self) -> None:
        """Start from normal weights of variance 2 / inputs."""
        nn.init.kaiming_normal_(self.weight, nonlinearity="relu")
        nn.init.zeros_(self.bias)


class SoftAttention(nn.Module):
    """z(f(k) · g(d_i)): how well each d_i fits the key k; f, g are linear + ReLU, z is linear.

    What comes out are logits: some callers take a softmax of them, others a sigmoid. Without a
    width of ``data``, it has no g of its own, and compares with what another has projected.
    """

    def __init__(self, key: int, data: int | None, hidden: int) -> None:
        super().__init__()
        self.f = nn.Sequential(ScaledLinear(key, hidden), nn.ReLU())
        if data is not None:
            self.g = nn.Sequential(ScaledLinear(data, hidden), nn.ReLU())
        self.z = nn.Linear(hidden, 1)

    def start_scaled(self) -> None:
        """Start z so that logits vary as f · g does: as key times data, for f and g scaled."""
        nn.init.normal_(self.z.weight, std=self.z.in_features**-0.5)
        nn.init.zeros_(self.z.bias)

    def project(self, data: Tensor) -> Tensor:
        """Return g(d) (…, N, hidden), which does not depend on the key."""
        projected: Tensor = self.g(data)
        return projected

    def compare(self, key: Tensor, projected: Tensor, env: Environment) -> Tensor:
        """Return the logits (B, N) of a key (B, key) and g(d), of samples or of their scenes.

        z(f·g) = Σ_h z_h f_h g_h + bias: folding z into f makes it one product of matrices.
        """
        weighted: Tensor = self.f(key) * self.z.weight  # (B, hidden)
        return env.products(weighted, projected) + self.z.bias

    def forward(self, key: Tensor, data: Tensor, env: Environment) -> Tensor:
        """Return the logits (B, N) of a key (B, key) over data, of samples or of their scenes."""
        return self.compare(key, self.project(data), env)


def receiver(width: int, hidden: int) -> nn.Sequential:
    """Return the paper's receiver: linear layer, batch norm, tanh."""
    return nn.Sequential(nn.Linear(width, hidden), nn.BatchNorm1d(hidden), nn.Tanh())


def perceptron(width: int, hidden: int, out: int) -> nn.Sequential:
    """Return an MLP with one hidden layer."""
    return nn.Sequential(ScaledLinear(width, hidden), nn.ReLU(), ScaledLinear(hidden, out))


class GatedTanh(nn.Module):
    """tanh(W x + b) ⊙ σ(W′ x + b′), as in Anderson et al. 2018."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.value = nn.Linear(width, hidden)
        self.gate = nn.Linear(width, hidden)

    def start_scaled(self) -> None:
        """Start W as suits a tanh, whose slope shrinks what it gets."""
        nn.init.xavier_uniform_(self.value.weight, gain=nn.init.calculate_gain("tanh"))
        nn.init.zeros_(self.value.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the gated layer's output (B, hidden)."""
        gated: Tensor = self.value(x).tanh() * self.gate(x).sigmoid()
        return gated


class QuestionEncoder(nn.Module):
    """Word vectors and a one-layer GRU; the question is the state after its last word.

    With ``singulars``, a plural has the vector of its singular, as good word vectors nearly do.
    """

    vector_of: Tensor  # (words,): the number of each word's vector

    def __init__(
        self, words: Sequence[str], word: int, hidden: int, singulars: bool = False
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(len(words), word, padding_idx=0)
        self.gru = nn.GRU(word, hidden, batch_first=True)
        numbers = singular_of(words) if singulars else range(len(words))
        self.register_buffer("vector_of", torch.tensor(list(numbers)), persistent=False)

    def forward(self, env: Environment) -> Tensor:
        """Return the question vectors S (B, hidden) of a batch."""
        question = env["question"]  # (B, L), padded with 0
        length = (question != 0).sum(1).clamp(min=1)
        words = self.words(self.vector_of[question[:, : int(length.max())]])  # (B, L, word)
        # Packed, the GRU takes no steps for padding: half of all, where questions differ in length.
        packed = pack_padded_sequence(words, length.cpu(), batch_first=True, enforce_sorted=False)
        return last_states(self.gru, packed)


def singular_of(words: Sequence[str]) -> list[int]:
    """Return for each word the number of its singular, where that is in the list; else its own."""
    number = {word: place for place, word in enumerate(words)}
    nouns = {word for word in words if len(word) > 2}  # "as" is no plural of "a"
    found = []
    for word in words:
        singulars = [word.removesuffix(ending) for ending in ("s", "es") if word.endswith(ending)]
        found.append(next((number[s] for s in singulars if s in nouns), number[word]))
    return found


def start_scaled(parts: Iterable[nn.Module]) -> None:
    """Start layers that are multiplied with one another at the scale of what they get.

    By torch's own start, each of f, g and z shrinks its input, and their product moves too little
    to learn from (docs/departures.md).
    """
    for part in parts:
        if isinstance(part, (ScaledLinear, SoftAttention, GatedTanh)):
            part.start_scaled()
