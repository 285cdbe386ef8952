"""Fine-tune a tiny BERT with the Trainer of transformers, which chooses the device by itself, then evaluate it."""

import argparse

import torch
from record import keep
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Sentences(torch.utils.data.Dataset):
    """Random tokens with random labels."""

    def __init__(self, count):
        generator = torch.Generator().manual_seed(5)
        self.tokens = torch.randint(0, 100, (count, 16), generator=generator)
        self.labels = torch.randint(0, 2, (count,), generator=generator)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return {"input_ids": self.tokens[index], "labels": self.labels[index]}


def main():
    """Train and evaluate."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    config = BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
        num_labels=2,
    )
    known = TrainingArguments.__dataclass_fields__
    strategy = "eval_strategy" if "eval_strategy" in known else "evaluation_strategy"  # before transformers 4.41
    arguments = TrainingArguments(
        options.out,
        max_steps=8,
        per_device_train_batch_size=4,
        learning_rate=1e-3,
        logging_steps=2,
        **{strategy: "steps"},
        eval_steps=4,
        save_steps=8,
        gradient_accumulation_steps=2,
        bf16=options.bf16,
        use_cpu=options.cpu,
        report_to=[],
    )
    model = BertForSequenceClassification(config)
    trainer = Trainer(model=model, args=arguments, train_dataset=Sentences(32), eval_dataset=Sentences(12))
    result = trainer.train()
    keep("trained", result.training_loss)
    keep("evaluated", trainer.evaluate()["eval_loss"])
    keep("predicted", torch.as_tensor(trainer.predict(Sentences(6)).predictions))
    print("device:", arguments.device, next(model.parameters()).device)


if __name__ == "__main__":
    main()
