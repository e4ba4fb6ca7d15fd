"""The static model's pooling as a module of sentence-transformers. Imported by exported folders only; needs torch."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Self

import torch
from sentence_transformers.sentence_transformer.modules import StaticEmbedding


class CountedEmbedding(StaticEmbedding):  # type: ignore[misc]
    """Sums the vectors of distinct pieces, each times the square root of its count."""

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Return the features with ``sentence_embedding``, float32 of shape (texts, dimension)."""
        ids, offsets = features["input_ids"], features["offsets"]
        bounds = [*offsets.tolist(), len(ids)]
        rows = [ids[start:end].unique(return_counts=True) for start, end in pairwise(bounds)]
        weights = self.embedding.weight
        sums = [counts.sqrt() @ weights[pieces] for pieces, counts in rows]
        features["sentence_embedding"] = torch.stack(sums) if sums else weights.new_zeros((0, weights.shape[1]))
        return features

    @classmethod
    def load(cls, model_name_or_path: str, **options: Any) -> Self:
        """Load what ``save`` wrote."""
        plain = super().load(model_name_or_path, **options)
        return cls(plain.tokenizer, embedding_weights=plain.embedding.weight.data)
