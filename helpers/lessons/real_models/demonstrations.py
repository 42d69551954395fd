"""SFT as a rival of RL on a checked task: on true answers, or on the reference's right samples."""

import time

import torch
from torch import Tensor

from helpers.lessons.real_models.task_measure import answers
from helpers.lessons.real_models.tasks import LINE_END, answer_reward
from helpers.models import trainable
from helpers.ppo import gradient_step
from helpers.prompts import as_rows
from helpers.rewards import score_texts
from helpers.sampling import SampledText
from helpers.sft import sft_loss
from helpers.state import RLHFState
from helpers.steps import anneal, record_iteration
from helpers.tools.validate import require


class DemonstrationStep:
    """A step of SFT: on the true answers to the questions, which RL never sees; or on right samples.

    The latter are the right ones among at least as many samples of the reference as RL draws.
    """

    def __init__(self, true: bool):
        self.true, self.texts = true, []

    def demonstrations(self, state: RLHFState) -> list[SampledText]:
        """What is learned from."""
        config, rows = state.config, as_rows(state.prompts)
        if self.true:
            return [SampledText("", x["prompt"], f" {x['solution']}{LINE_END}") for x in rows]
        count = -(-config.iterations * config.batch_size // len(rows))
        batches = answers(state.models.reference, state, rows, count, seed=config.seed)
        texts = [text for batch in batches for text in batch.texts]
        right = score_texts(answer_reward, texts).tolist()
        return [text for text, ok in zip(texts, right, strict=True) if ok]

    def __call__(self, state: RLHFState) -> dict:
        """One gradient step on a batch of them, drawn anew; the rate anneals as in RL."""
        config, began = state.config, time.perf_counter()
        if not self.texts:
            self.texts = self.demonstrations(state)
            require(len(self.texts) > 0, "samples", "no right one", "some to learn from")
        drawn = torch.randint(
            len(self.texts), (config.batch_size,), generator=state.generators["minibatches"]
        )
        rate, loss = anneal(state), demonstrations_loss(state, [self.texts[i] for i in drawn])
        state.optimizer.zero_grad()
        loss.backward()
        gradient_step(trainable(state.models.actor), state.optimizer, config.max_grad_norm)
        metrics = {"loss": float(loss.detach()), "learning_rate": rate}
        metrics["right_samples"] = len(self.texts)
        return record_iteration(state, metrics, began)


def demonstrations_loss(state: RLHFState, texts: list[SampledText]) -> Tensor:
    """`sft_loss` of these completions."""
    tokenizer = state.models.tokenizer
    how = {"padding": True, "padding_side": "right", "return_tensors": "pt"}
    device = state.models.device
    encoded = tokenizer([text.prompt + text.completion for text in texts], **how).to(device)
    mask = encoded["attention_mask"].bool()
    starts = [[len(tokenizer(text.prompt)["input_ids"])] for text in texts]
    places = torch.arange(mask.shape[1], device=device)
    learned = mask & (places >= torch.tensor(starts, device=device))
    return sft_loss(state.models.actor, encoded["input_ids"], mask, learned)
