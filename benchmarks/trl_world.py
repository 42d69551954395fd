"""TRL's PPOTrainer on the embedded world: the same prompts, models, rollouts and objective as ours."""

import tempfile
from contextlib import redirect_stdout
from io import StringIO
from types import SimpleNamespace

import torch
from torch import Tensor, nn
from transformers import GPT2ForSequenceClassification, TrainerCallback

from benchmarks.yardstick import last_value
from helpers.config import RLHFConfig
from helpers.reward_model import RewardModel
from helpers.state import Models, RLHFState, start_run

LOGGED = {"score": "objective/scores", "kl": "objective/kl"}


class TextReward(nn.Module):
    """Our [CLS] reward model with TRL's interface: a trunk and a `score` head read at the last token.

    TRL calls the trunk with ids [B, L] (pads 0, told by the mask) and takes the head's output at one
    position of each row; here the score of the whole text stands at every position.
    """

    base_model_prefix = "trunk"

    def __init__(self, reward: RewardModel):
        super().__init__()
        self.trunk, self.score = _Reader(reward), nn.Identity()


class _Reader(nn.Module):
    """Token ids → text → the reward model's own tokens and score."""

    def __init__(self, reward: RewardModel):
        super().__init__()
        self.reward = reward

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **ignored) -> SimpleNamespace:
        """[B, L] → hidden states whose last one is the score, [B, L, 1]."""
        pairs = zip(input_ids.tolist(), attention_mask.bool().tolist(), strict=True)
        rows = [[i for i, counts in zip(*pair, strict=True) if counts] for pair in pairs]
        texts = self.reward.tokenizer.batch_decode(rows, skip_special_tokens=True)
        scores = self.reward.score_texts(texts).to(input_ids.device)  # (B,)
        return SimpleNamespace(hidden_states=[scores[:, None, None].expand(*input_ids.shape, 1)])


def value_model(models: Models) -> GPT2ForSequenceClassification:
    """A critic for TRL that starts like ours: the actor's trunk, and a head of zeros."""
    critic = GPT2ForSequenceClassification(
        models.actor.config.__class__.from_dict(models.actor.config.to_dict() | {"num_labels": 1})
    )
    critic.transformer.load_state_dict(models.actor.transformer.state_dict())
    nn.init.zeros_(critic.score.weight)
    return critic


class Recorder(TrainerCallback):
    """Collect what TRL logs for each rollout: mean score, mean KL in nats per response."""

    def __init__(self):
        self.rows: list[dict[str, float]] = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and LOGGED["score"] in logs:
            self.rows.append({name: logs[key] for name, key in LOGGED.items()})


def make_trainer(state: RLHFState, recorder: Recorder):
    """TRL's trainer with the settings of our config, as far as it has them.

    Its own way: no gradient clipping, one learning rate for both networks.
    """
    from datasets import Dataset
    from trl.experimental.ppo import PPOConfig, PPOTrainer

    config, models = state.config, state.models
    arguments = PPOConfig(
        output_dir=tempfile.mkdtemp(prefix="trl"),
        use_cpu=True,
        bf16=False,
        seed=config.seed,
        learning_rate=config.learning_rate,
        adam_epsilon=config.adam_eps,
        per_device_train_batch_size=config.batch_size,
        gradient_accumulation_steps=1,
        num_mini_batches=config.batch_size // config.minibatch_size,
        num_ppo_epochs=config.num_ppo_epochs,
        total_episodes=config.batch_size * config.iterations,
        response_length=config.response_length,
        local_rollout_forward_batch_size=config.batch_size,
        temperature=config.temperature,
        stop_token="eos",
        missing_eos_penalty=None,
        kl_coef=config.kl_coef,
        vf_coef=config.vf_coef,
        gamma=config.gamma,
        lam=config.lam,
        cliprange=config.cliprange,
        cliprange_value=config.cliprange_value,
        num_sample_generations=0,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    rows = Dataset.from_dict({"input_ids": models.tokenizer(state.prompts)["input_ids"]})
    return PPOTrainer(
        args=arguments,
        processing_class=models.tokenizer,
        model=models.actor,
        ref_model=models.reference,
        reward_model=TextReward(models.reward),
        value_model=value_model(models),
        train_dataset=rows,
        eval_dataset=rows,
        callbacks=[recorder],
    )


def run_trl(config: RLHFConfig, evaluated: int) -> dict:
    """Train with TRL, then evaluate like ours; returns `history` of rollouts and `final`."""
    from trl.experimental.ppo import ppo_trainer

    ppo_trainer.gc = SimpleNamespace(collect=lambda: 0)  # takes half a second and changes no number
    state, recorder = start_run(config), Recorder()
    torch.manual_seed(config.seed)
    trainer = make_trainer(state, recorder)
    with redirect_stdout(StringIO()):
        trainer.train()
    state.models.actor.eval()
    return {"history": recorder.rows, "final": last_value(state, evaluated)}
