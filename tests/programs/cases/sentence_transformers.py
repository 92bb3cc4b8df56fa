"""an encoder's ranking loss; embeddings, its `Trainer`, a score, a folder, a cross encoder"""

import tempfile

import torch

PACKAGE = "sentence-transformers"
REQUIRES = ["accelerate", "datasets"]
QUESTIONS = ["word1 word2 word3", "word4 word5", "word6 word7 word8 word9", "word10 word11"]
ANSWERS = ["word3 word2", "word5 word6 word4", "word9 word8", "word11 word12 word13"]


def a_bert(folder, kind="BertModel", **more):
    """A small BERT with random weights and its tokenizer, in a folder; its path."""
    import driver
    import transformers
    from cases.transformers_pipeline import SIZES, a_tokenizer

    model = getattr(transformers, kind)(transformers.BertConfig(**SIZES, **more))
    driver.fill(model)
    model.save_pretrained(folder)
    a_tokenizer().save_pretrained(folder)
    return folder


def an_encoder():
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules

    with tempfile.TemporaryDirectory() as folder:
        words = modules.Transformer(a_bert(folder), max_seq_length=16)
    pooling = modules.Pooling(words.get_embedding_dimension(), "mean")
    return SentenceTransformer(modules=[words, pooling, modules.Normalize()], device="cpu").eval()


def build():
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    model = an_encoder()
    ranking = MultipleNegativesRankingLoss(model)

    def loss(model, *tokens):
        features = [{"input_ids": tokens[at], "attention_mask": tokens[at + 1]} for at in (0, 2)]
        return ranking(features, None)

    inputs = []
    for texts in (QUESTIONS, ANSWERS):
        found = model.tokenize(texts)
        inputs += [found["input_ids"], found["attention_mask"]]
    return model, inputs, loss


def more(model, inputs):
    from datasets import Dataset
    from sentence_transformers import (
        CrossEncoder,
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer import evaluation, losses
    from sentence_transformers.util import semantic_search

    questions = model.encode(QUESTIONS, convert_to_tensor=True)
    answers = model.encode(ANSWERS, convert_to_tensor=True)
    found = {
        "questions": questions, "one": torch.from_numpy(model.encode(QUESTIONS[0])),
        "similarity": model.similarity(questions, answers),
    }  # fmt: skip
    hits = semantic_search(questions, answers, top_k=2)
    found["found"] = torch.tensor([[each["corpus_id"] for each in row] for row in hits])
    evaluator = evaluation.EmbeddingSimilarityEvaluator(QUESTIONS, ANSWERS, [0.1, 0.9, 0.4, 0.6])
    found["score"] = torch.tensor(evaluator(model)["spearman_cosine"])
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder, create_model_card=False)
        found["loaded"] = SentenceTransformer(folder, device="cpu").encode(
            QUESTIONS, convert_to_tensor=True
        )
        other = an_encoder()
        trainer = SentenceTransformerTrainer(
            model=other,
            args=SentenceTransformerTrainingArguments(
                folder, max_steps=4, per_device_train_batch_size=2, use_cpu=True, report_to="none",
                logging_steps=1, save_strategy="no", disable_tqdm=True, learning_rate=1e-3,
            ),
            train_dataset=Dataset.from_dict(
                {"first": QUESTIONS, "second": ANSWERS, "label": [0.1, 0.9, 0.4, 0.6]}
            ),
            loss=losses.CosineSimilarityLoss(other.eval()),
        )  # fmt: skip
        # Without dropout, whose numbers depend on the order of operators.
        for each in other.modules():
            if isinstance(each, torch.nn.Dropout):
                each.p = 0.0
        trainer.train()
        logged = [each["loss"] for each in trainer.state.log_history if "loss" in each]
        found["trained"] = torch.tensor(logged)
    with tempfile.TemporaryDirectory() as folder:
        path = a_bert(folder, "BertForSequenceClassification", num_labels=1)
        pairs = list(zip(QUESTIONS, ANSWERS, strict=True))
        found["pairs"] = CrossEncoder(path, device="cpu").predict(pairs, convert_to_tensor=True)
    return found
