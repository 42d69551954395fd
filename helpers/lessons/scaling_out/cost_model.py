"""Cost model: seconds of an iteration from FLOPs and bytes, for N parameters, T tokens, G GPUs.

A roofline per phase: the larger of compute time and memory time, plus communication. Not modelled: latency,
activations kept for the backward pass, pipeline bubbles and stragglers.
"""

from dataclasses import dataclass, replace

from helpers.tools.validate import require, require_count

# per parameter: weight and gradient in bf16; in float32 Adam's two moments and a master copy (ZeRO paper)
TRAINED_BYTES, FROZEN_BYTES = 2 + 2 + 4 + 4 + 4, 2


@dataclass(frozen=True)
class Size:
    """Sizes of a transformer that determine its cost."""

    matrices: int  # N: parameters of the blocks, each used once per token
    layers: int
    width: int
    vocab: int = 0  # rows of the logit head; 0 for a model without one

    @property
    def parameters(self) -> int:
        """N and the embedding (shared with the logit head)."""
        return self.matrices + self.vocab * self.width


@dataclass(frozen=True)
class Load:
    """Work of one iteration: B responses of T tokens to prompts of P tokens, and PPO's passes."""

    responses: int  # B
    prompt: int  # P tokens
    response: int  # T tokens
    epochs: int = 4
    steps: int = 4  # optimizer steps in all epochs together
    parts: int = 8  # micro-batches in all epochs together

    def split(self, gpus: int) -> "Load":
        """The largest share of one GPU: all wait for it. ValueError: fewer responses than GPUs."""
        enough = self.responses >= gpus
        require(enough, "responses", self.responses, f"at least one for each of {gpus} GPUs")
        return replace(self, responses=-(-self.responses // gpus))


@dataclass(frozen=True)
class Work:
    """Work of one GPU in one phase."""

    flops: float = 0.0
    bytes: float = 0.0  # read from its own memory
    link: float = 0.0  # bytes sent to and from other GPUs

    def __add__(self, other: "Work") -> "Work":
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Work(*(a + b for a, b in pairs))

    def __mul__(self, factor: float) -> "Work":
        return Work(*(factor * value for value in vars(self).values()))


@dataclass(frozen=True)
class Device:
    """Speed of a processor: what it reaches in practice, not its nominal peak."""

    flops: float  # per second
    bandwidth: float  # bytes per second from its memory
    link: float  # bytes per second to the other GPUs

    def seconds(self, work: Work) -> float:
        """Time of one phase in seconds."""
        return max(work.flops / self.flops, work.bytes / self.bandwidth) + work.link / self.link


# H100 SXM, data sheet: 989 TFLOP/s dense bf16, 3.35 TB/s, NVLink 450 GB/s in each direction; a training
# step reaches about 40 % of these FLOP/s
H100 = Device(flops=0.4 * 989e12, bandwidth=3.35e12, link=450e9)


def forward(size: Size, tokens: float, context: float, logits: float = 0.0) -> Work:
    """One forward of `tokens` tokens that each attend to `context` positions, with `logits` logit rows.

    2 FLOPs per parameter and token, and 4·layers·width per token and position attended to. Reads each
    weight once, two bytes each.
    """
    flops = 2.0 * size.matrices * tokens + 4.0 * size.layers * size.width * context * tokens
    return Work(flops + 2.0 * size.width * size.vocab * logits, 2.0 * size.parameters)


def whole(size: Size, load: Load) -> Work:
    """One forward over prompts and responses, with logits for the responses only."""
    tokens = load.responses * (load.prompt + load.response)
    logits = load.responses * load.response if size.vocab else 0
    return forward(size, tokens, load.prompt + load.response, logits)


def generation(size: Size, load: Load, sharded_over: int = 1) -> Work:
    """Sampling: the prompts once, then one forward per token, which reads the whole key–value cache.

    With `sharded_over` G > 1 GPUs (ZeRO-3 without gathering first), every token fetches the other
    GPUs' weights over the link.
    """
    rows, per_position = load.responses, 4.0 * size.layers * size.width  # bytes: K and V in bf16
    prompts = forward(size, rows * load.prompt, load.prompt, rows)
    context = load.prompt + load.response / 2  # on average
    each = forward(size, rows, context, rows) + Work(bytes=rows * context * per_position)
    away = (sharded_over - 1) / sharded_over * 2.0 * size.parameters
    return prompts + each * (load.response - 1) + Work(link=away * load.response)


def update(sizes: list[Size], load: Load, gpus: int = 1) -> Work:
    """PPO's epochs over actor and critic: a forward, and a backward with twice its FLOPs.

    Every optimizer step reads and writes Adam's state and sums the gradients over all GPUs
    (ring all-reduce: 2·(G − 1)/G times their bytes).
    """
    work = Work()
    for size in sizes:
        once = whole(size, load)
        work = work + Work(3 * load.epochs * once.flops, 3 * load.parts * once.bytes)
        ring = 2 * (gpus - 1) / gpus * 2.0 * size.parameters
        work = work + Work(bytes=2 * 12.0 * size.parameters, link=ring) * load.steps
    return work


def phases(size: Size, load: Load, gpus: int = 1, sharded: bool = False) -> dict[str, Work]:
    """Work of each phase on one of `gpus` GPUs, with four models of one size; `load` is that of all."""
    part = load.split(gpus)
    once = whole(size, part)
    return {
        "generate": generation(size, part, gpus if sharded else 1),
        "score": once,
        "reference": once,
        "values": once,
        "update": update([size, size], part, gpus),
    }


def memory(trained: list[Size], frozen: list[Size], gpus: int = 1) -> float:
    """Bytes on each GPU for weights, gradients and Adam, divided evenly among `gpus` (ZeRO-3)."""
    require_count("gpus", gpus)
    bytes_of = sum(TRAINED_BYTES * size.parameters for size in trained)
    return (bytes_of + sum(FROZEN_BYTES * size.parameters for size in frozen)) / gpus


def engine_choices(
    size: Size, load: Load, gpus: int, device: Device
) -> dict[str, dict[str, float]]:
    """Seconds per phase for three placements of four models of one size on several GPUs.

    "sharded": ZeRO-3 for sampling too, weights fetched for each token. "engine": an inference engine
    with all weights on every GPU, updated once per iteration (`sync`). "async, 3 generate": 3 GPUs
    sample while the others train on responses that are one update old; this is the best split, and only
    the slower side is listed. ValueError: fewer than two GPUs.
    """
    require(gpus >= 2, "gpus", gpus, "at least two")

    def timed(count: int, sharded: bool = False) -> dict[str, float]:
        work = phases(size, load, count, sharded)
        return {name: device.seconds(w) for name, w in work.items()}

    sync = {"sync": device.seconds(Work(link=2.0 * size.parameters))}

    def sides(samplers: int) -> dict[str, float]:
        rest = sum(v for name, v in timed(gpus - samplers).items() if name != "generate")
        return {"generate": timed(samplers)["generate"] + sync["sync"], "update": rest}

    best = min(range(1, gpus), key=lambda samplers: max(sides(samplers).values()))
    slower = max(sides(best).items(), key=lambda side: side[1])
    return {
        "sharded": timed(gpus, sharded=True),
        "engine": timed(gpus) | sync,
        f"async, {best} generate": dict([slower]),
    }
