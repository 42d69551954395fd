"""What a model may be given: ids it knows, and no more of them than its context holds."""

from torch import Tensor, nn

from helpers.validate import require, require_ids, require_mask, require_tensor


def _require_known(name: str, ids: Tensor, model: nn.Module) -> None:
    """Ids for which the model has an embedding."""
    embeddings = getattr(model, "get_input_embeddings", lambda: None)()
    if isinstance(embeddings, nn.Embedding):
        require_ids(name, ids, embeddings.num_embeddings)


def require_prompts(
    model: nn.Module, query_tensors: Tensor, query_mask: Tensor, response_length: int
) -> None:
    """Ids the model knows, and room for prompt and response (its last token is never read)."""
    require_tensor("query_tensors", query_tensors, dims=2)
    require(query_tensors.numel() > 0, "query_tensors", "no tokens", "at least one token a row")
    require_mask("query_mask", query_mask, query_tensors.shape, every_row=True)
    _require_known("query_tensors", query_tensors, model)
    limit = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    longest = int(query_mask.sum(dim=1).max())
    fits = limit is None or longest + response_length - 1 <= limit
    got = f"{longest} tokens and {response_length} of response"
    require(fits, "query_tensors", got, f"at most {limit} in all")


def require_responses(model: nn.Module, response_tensors: Tensor, response_mask: Tensor) -> None:
    """Ids the model knows, and something that counts."""
    require_tensor("response_tensors", response_tensors, dims=2)
    require_mask("response_mask", response_mask, response_tensors.shape)
    _require_known("response_tensors", response_tensors, model)
