"""ComplEx's loss on triples; scores and gradients of 22 models, 8 losses, ranks, a `pipeline`"""

import logging
import tempfile

import numpy as np
import torch

PACKAGE = "pykeen"
MODELS = (
    "TransE", "TransH", "TransR", "TransF", "TransD", "DistMult", "ComplEx", "RotatE", "HolE",
    "RESCAL", "TuckER", "ConvKB", "ConvE", "CrossE", "ERMLP", "KG2E", "MuRE", "NTN", "PairRE",
    "ProjE", "QuatE", "SE",
)  # fmt: skip
SIZES = {
    "ConvE": {"embedding_dim": 12, "output_channels": 2, "embedding_height": 3,
              "embedding_width": 4, "kernel_height": 2, "kernel_width": 2},
    "HolE": {"embedding_dim": 8}, "TransR": {"embedding_dim": 8, "relation_dim": 4},
    "TuckER": {"embedding_dim": 8, "relation_dim": 4},
    "ConvKB": {"embedding_dim": 8, "num_filters": 3},
    "ERMLP": {"embedding_dim": 8, "hidden_dim": 6},
}  # fmt: skip


def triples():
    from pykeen.triples import TriplesFactory

    rng = np.random.default_rng(0)
    found = np.unique(rng.integers(0, 12, (80, 3)), axis=0)
    found[:, 1] %= 3
    found = np.unique(found, axis=0)
    # Each entity and relation is in the first rows.
    every = np.stack([np.arange(12), np.arange(12) % 3, (np.arange(12) + 1) % 12], 1)
    found = np.unique(np.concatenate([every, found]), axis=0)
    return TriplesFactory(
        torch.from_numpy(found), {f"e{each:02}": each for each in range(12)},
        {f"r{each}": each for each in range(3)},
    )  # fmt: skip


def a_model(name):
    import driver
    from pykeen import models

    sizes = SIZES.get(name, {"embedding_dim": 8})
    model = getattr(models, name)(triples_factory=triples(), random_seed=0, **sizes)
    driver.fill(model)
    for each in model.modules():
        if isinstance(each, torch.nn.Dropout | torch.nn.Dropout2d):
            each.p = 0.0
    return model


def build():
    known = triples().mapped_triples[:16]
    others = torch.stack([known[:, 0], known[:, 1], (known[:, 2] + 5) % 12], 1)

    def loss(model, known, others):
        return (
            model.loss.process_slcwa_scores(
                model.score_hrt(known), model.score_hrt(others)[:, None]
            )
            + 0.01 * model.collect_regularization_term()
        )

    return a_model("ComplEx"), (known, others), loss


def more(model, inputs):
    from pykeen import losses
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.pipeline import pipeline
    from pykeen.predict import predict_target, predict_triples

    logging.disable(logging.WARNING)
    known, others = inputs
    found = {}
    for name in MODELS:
        other = a_model(name)
        scores = other.score_hrt(known[:6])
        (scores.sum() + other.score_t(known[:4, :2]).square().sum()).backward()
        found[name] = scores
        found[f"gradients of {name}"] = torch.stack(
            [each.grad.norm() for each in other.parameters() if each.grad is not None]
        )
        other.eval()
        found[f"heads by {name}"] = other.score_h(known[:4, 1:])
        found[f"relations by {name}"] = other.score_r(known[:4, [0, 2]])
    rng = np.random.default_rng(1)
    right, wrong = (torch.from_numpy(rng.standard_normal((4, n))).float() for n in (1, 3))
    for name in (
        "BCEWithLogitsLoss", "MarginRankingLoss", "NSSALoss", "SoftplusLoss", "FocalLoss",
        "DoubleMarginLoss", "InfoNCELoss", "CrossEntropyLoss",
    ):  # fmt: skip
        found[name] = getattr(losses, name)().process_slcwa_scores(right, wrong)

    model.eval()
    ranked = RankBasedEvaluator().evaluate(
        model, known, additional_filter_triples=[others], use_tqdm=False
    )
    for name in ("hits_at_3", "inverse_harmonic_mean_rank", "adjusted_arithmetic_mean_rank"):
        found[name] = torch.tensor(ranked.get_metric(name))
    frame = predict_target(model, head="e01", relation="r1", triples_factory=triples()).df
    found["predicted"] = torch.from_numpy(frame["score"].to_numpy().copy())
    found["scored"] = torch.from_numpy(
        predict_triples(model, triples=known[:5]).scores.numpy().copy()
    )

    train, test = triples(), triples().clone_and_exchange_triples(known)
    for loop, options in {
        "lcwa": {"optimizer": "Adam"},
        "slcwa": {"optimizer": "Adagrad", "negative_sampler": "basic",
                  "lr_scheduler": "ExponentialLR", "lr_scheduler_kwargs": {"gamma": 0.9}},
    }.items():  # fmt: skip
        result = pipeline(
            training=train, testing=test, model="DistMult", model_kwargs={"embedding_dim": 8},
            loss="softplus", training_loop=loop, epochs=4, random_seed=3, device="cpu",
            training_kwargs={"batch_size": 16, "use_tqdm": False, "num_workers": 0},
            evaluation_kwargs={"use_tqdm": False, "batch_size": 8}, use_tqdm=False,
            regularizer="lp", **options,
        )  # fmt: skip
        found[f"{loop} losses"] = torch.tensor(result.losses)
        found[f"{loop} rank"] = torch.tensor(result.get_metric("mean_reciprocal_rank"))
        with tempfile.TemporaryDirectory() as folder:
            result.save_to_directory(folder, save_training=False, save_metadata=False)
            again = torch.load(f"{folder}/trained_model.pkl", weights_only=False)
        found[f"{loop} loaded"] = again.score_hrt(known)
    return found
