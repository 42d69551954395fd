"""Cost model: time of an iteration from FLOPs, bytes and latency, for N parameters, T tokens, G GPUs.

A roofline per phase: the larger of compute time and memory time, plus communication, plus a fixed
latency per call of a model. Not modelled: activations kept for the backward pass, pipeline bubbles
and stragglers.
"""

from dataclasses import dataclass, replace

from torch import nn

from helpers.tools.validate import require, require_count, require_positive

# per parameter: weight and gradient in bf16; in float32 Adam's two moments and a master copy (ZeRO paper)
TRAINED_BYTES, FROZEN_BYTES = 2 + 2 + 4 + 4 + 4, 2


@dataclass(frozen=True)
class Size:
    """Sizes of a transformer that determine its cost."""

    matrices: int  # N: parameters of the blocks, each used once per token
    layers: int
    width: int
    vocab: int = 0  # rows of the logit head; 0 for a model without one

    @classmethod
    def of(cls, model: nn.Module, with_logits: bool = True) -> "Size":
        """The sizes of a transformers model."""
        config = model.config
        embedded = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
        counted = sum(p.numel() for p in model.parameters() if id(p) not in embedded)
        vocab = config.vocab_size if with_logits else 0
        return cls(counted, config.num_hidden_layers, config.hidden_size, vocab)

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
    longest: int | None = None  # tokens of the longest response, where T is a mean

    def __post_init__(self):
        for name in ("responses", "prompt", "response", "epochs", "steps", "parts"):
            require_count(name, getattr(self, name))
        if self.longest is not None:
            require_count("longest", self.longest, low=self.response)

    @property
    def written(self) -> int:
        """Tokens that writing takes: a batch goes on, all rows of it, until its longest response ends."""
        return self.response if self.longest is None else self.longest

    def split(self, gpus: int) -> "Load":
        """The largest share of one GPU: all wait for it. ValueError: fewer responses than GPUs."""
        require_count("gpus", gpus)
        enough = self.responses >= gpus
        require(enough, "responses", self.responses, f"at least one for each of {gpus} GPUs")
        return replace(self, responses=-(-self.responses // gpus))


@dataclass(frozen=True)
class Work:
    """Work of one GPU in one phase."""

    flops: float = 0.0
    bytes: float = 0.0  # read from its own memory
    link: float = 0.0  # bytes sent to and from other GPUs
    calls: float = 0.0  # forwards or backwards of one model, each with a fixed latency

    def __add__(self, other: "Work") -> "Work":
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Work(*(a + b for a, b in pairs))

    def __mul__(self, factor: float) -> "Work":
        return Work(*(factor * value for value in vars(self).values()))


@dataclass(frozen=True, kw_only=True)
class Device:
    """Speed of a processor: what it reaches in practice, not its nominal peak."""

    flops: float  # per second
    bandwidth: float = float("inf")  # bytes per second from its memory
    link: float = float("inf")  # bytes per second to the other GPUs
    wait: float = 0.0  # latency: seconds per call of a model, whatever its size

    def __post_init__(self):
        require_positive("flops", self.flops)

    def seconds(self, work: Work) -> float:
        """Time of one phase in seconds."""
        near = max(work.flops / self.flops, work.bytes / self.bandwidth)
        return near + work.link / self.link + work.calls * self.wait


# H100 SXM, data sheet: 989 TFLOP/s dense bf16, 3.35 TB/s, NVLink 450 GB/s in each direction; a training
# step reaches about 40 % of these FLOP/s
H100 = Device(flops=0.4 * 989e12, bandwidth=3.35e12, link=450e9, wait=0.0)


def forward(size: Size, tokens: float, context: float, logits: float = 0.0) -> Work:
    """One forward of `tokens` tokens that each attend to `context` positions, with `logits` logit rows.

    2 FLOPs per parameter and token, and 4·layers·width per token and position attended to. Reads each
    weight once, two bytes each.
    """
    flops = 2.0 * size.matrices * tokens + 4.0 * size.layers * size.width * context * tokens
    return Work(flops + 2.0 * size.width * size.vocab * logits, 2.0 * size.parameters, 0.0, 1.0)


def whole(size: Size, load: Load) -> Work:
    """One forward over prompts and responses, with logits for the responses only."""
    tokens = load.responses * (load.prompt + load.response)
    logits = load.responses * load.response if size.vocab else 0
    return forward(size, tokens, load.prompt + load.response, logits)


def writing(size: Size, load: Load, sharded_over: int = 1) -> Work:
    """Sampling: the prompts once, then one forward per token, which reads the whole key–value cache.

    Rows that have ended are computed until the longest has (`Load.longest`), as in our loop. With
    `sharded_over` G > 1 GPUs (ZeRO-3 without gathering first), every token fetches the other GPUs'
    weights over the link.
    """
    rows, per_position = load.responses, 4.0 * size.layers * size.width  # bytes: K and V in bf16
    work = forward(size, rows * load.prompt, load.prompt, rows)
    steps = load.written - 1
    context = load.prompt + load.written / 2  # on average
    cache = Work(0.0, rows * context * per_position)
    work = work + (forward(size, rows, context, rows) + cache) * steps
    away = (sharded_over - 1) / sharded_over * 2.0 * size.parameters
    return work + Work(link=away * load.written)


def update(sizes: list[Size], load: Load, gpus: int = 1) -> Work:
    """PPO's epochs over actor and critic: a forward, and a backward with twice its FLOPs.

    Every optimizer step reads and writes Adam's state and sums the gradients over all GPUs
    (ring all-reduce: 2·(G − 1)/G times their bytes).
    """
    work = Work()
    for size in sizes:
        once = whole(size, load)
        work = work + Work(3 * load.epochs * once.flops, 3 * load.parts * once.bytes)
        work = work + Work(calls=3 * load.parts)  # the latency of a backward is about two forwards'
        ring = 2 * (gpus - 1) / gpus * 2.0 * size.parameters
        work = work + Work(bytes=2 * 12.0 * size.parameters, link=ring) * load.steps
    return work


def phases(
    actor: Size, critic: Size, reward: Size, load: Load, gpus: int = 1, sharded: bool = False
) -> dict[str, Work]:
    """Work of each phase on one of `gpus` GPUs: name → `Work`. `load` is the total of all GPUs."""
    part = load.split(gpus)
    return {
        "write": writing(actor, part, gpus if sharded else 1),
        "score": whole(reward, part),
        "reference": whole(actor, part),
        "values": whole(critic, part),
        "update": update([actor, critic], part, gpus),
    }


def shares(seconds: dict[str, float]) -> dict[str, float]:
    """Seconds as shares of their sum."""
    total = sum(seconds.values())
    require_positive("sum of the phases", total)
    return {name: value / total for name, value in seconds.items()}


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
    with all weights on every GPU, updated once per iteration (`sync`). "async, 3 write": 3 GPUs sample
    while the others train on responses that are one update old; this is the best split, and only the
    slower side is listed. ValueError: fewer than two GPUs.
    """
    require(gpus >= 2, "gpus", gpus, "at least two")

    def timed(count: int, sharded: bool = False) -> dict[str, float]:
        work = phases(size, size, size, load, count, sharded)
        return {name: device.seconds(w) for name, w in work.items()}

    sync = {"sync": device.seconds(Work(link=2.0 * size.parameters))}

    def sides(writers: int) -> dict[str, float]:
        rest = sum(v for name, v in timed(gpus - writers).items() if name != "write")
        return {"write": timed(writers)["write"] + sync["sync"], "update": rest}

    low, high = 1, gpus - 1  # bisection: more writers make sampling faster and training slower
    while low < high:
        middle = (low + high) // 2
        enough = sides(middle)["write"] <= sides(middle)["update"]
        low, high = (low, middle) if enough else (middle + 1, high)
    best = min((max(low - 1, 1), low), key=lambda writers: max(sides(writers).values()))
    slower = max(sides(best).items(), key=lambda side: side[1])
    return {
        "sharded": timed(gpus, sharded=True),
        "engine": timed(gpus) | sync,
        f"async, {best} write": dict([slower]),
    }
