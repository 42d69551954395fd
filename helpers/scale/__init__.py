"""Beyond the toy: hub models, LoRA, memory, timing, several processes, TRL, cost model."""
