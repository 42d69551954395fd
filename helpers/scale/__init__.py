"""Beyond the toy: hub models, LoRA, memory, export, held-out prompts, several processes, TRL."""
