"""a model of columns, crossed columns, texts and images: loss; 20 other models, trainers, files"""

import logging
import tempfile

import numpy as np
import torch

PACKAGE = "pytorch-widedeep"
# It asks for NumPy 1, which JAX no longer takes.
INSTEAD = ["numpy>=2"]
ROWS = 8
WORDS = ["red", "blue", "green", "tall", "small", "old", "new", "dark"]


def table():
    import pandas as pd

    rng = np.random.default_rng(0)
    return pd.DataFrame({
        "town": rng.choice(["a", "b", "c"], ROWS), "trade": rng.choice(["x", "y", "z", "w"], ROWS),
        "age": rng.uniform(20, 60, ROWS), "hours": rng.uniform(10, 50, ROWS),
        "text": [" ".join(rng.choice(WORDS, 5)) for _ in range(ROWS)],
        "income": rng.standard_normal(ROWS),
    })  # fmt: skip


def still(model):
    """Without dropout, which draws other numbers."""
    for each in model.modules():
        if isinstance(each, torch.nn.Dropout):
            each.p = 0.0
        if isinstance(getattr(each, "dropout", None), float):
            each.dropout = 0.0
    return model


def columns(attention=False):
    from pytorch_widedeep.preprocessing import TabPreprocessor

    cells = TabPreprocessor(
        cat_embed_cols=["town", "trade"], continuous_cols=["age", "hours"],
        cols_to_scale=["age", "hours"], with_attention=attention, verbose=0,
    )  # fmt: skip
    return cells, cells.fit_transform(table())


def whole():
    """The model with its four parts, and the inputs of each of them."""
    from pytorch_widedeep import models, preprocessing

    wide = preprocessing.WidePreprocessor(["town", "trade"], [("town", "trade")])
    crossed = wide.fit_transform(table())
    cells, values = columns()
    texts = preprocessing.TextPreprocessor(
        "text", max_vocab=20, min_freq=1, maxlen=6, n_cpus=1, verbose=0
    )
    tokens = texts.fit_transform(table())
    images = np.random.default_rng(1).standard_normal((ROWS, 3, 12, 12)).astype("float32")
    model = models.WideDeep(
        wide=models.Wide(int(crossed.max()), 1),
        deeptabular=models.TabMlp(
            cells.column_idx, cat_embed_input=cells.cat_embed_input,
            continuous_cols=cells.continuous_cols, mlp_hidden_dims=[8, 4], cont_norm_layer=None,
        ),
        deeptext=models.BasicRNN(len(texts.vocab.itos), embed_dim=4, hidden_dim=4, n_layers=2),
        deepimage=models.Vision(channel_sizes=[4, 8], kernel_sizes=[3, 3], strides=[1, 1]),
        head_hidden_dims=[8],
    )  # fmt: skip
    inputs = {"wide": crossed, "deeptabular": values, "deeptext": tokens, "deepimage": images}
    return still(model), inputs


def build():
    model, inputs = whole()
    target = torch.from_numpy(table()[["income"]].to_numpy().astype("float32"))

    def loss(model, wide, cells, tokens, images, target):
        given = {"wide": wide, "deeptabular": cells, "deeptext": tokens, "deepimage": images}
        return torch.nn.functional.mse_loss(model(given), target)

    tensors = [torch.from_numpy(each) for each in inputs.values()]
    return model, (*(each.float() if each.is_floating_point() else each for each in tensors),
                   target), loss  # fmt: skip


def ran(model, *inputs):
    """What a model gives, and the norms of its gradients."""
    import driver

    still(model)
    driver.fill(model)
    result = model(*inputs)
    parts = result if isinstance(result, tuple) else (result,)
    torch.stack([each.square().mean() for each in parts]).sum().backward()
    norms = [each.grad.norm() for each in model.parameters() if each.grad is not None]
    return torch.cat([*(each.flatten() for each in parts), torch.stack(norms)])


def of_columns():
    from pytorch_widedeep import models
    from pytorch_widedeep.models import rec

    found = {}
    cells, values = columns()
    tensor = torch.from_numpy(values).float()
    known = {"column_idx": cells.column_idx, "continuous_cols": cells.continuous_cols}
    known["cat_embed_input"] = cells.cat_embed_input
    for kind, options in (
        (models.TabMlp, {"mlp_hidden_dims": [8], "mlp_batchnorm": True,
                         "embed_continuous_method": "standard", "cont_embed_dim": 3}),
        (models.TabResnet, {"blocks_dims": [8, 8]}),
        (models.TabNet, {"n_steps": 2}),
        (models.TabNet, {"n_steps": 2, "mask_type": "entmax"}),
        (rec.DeepCrossNetworkV2, {"mlp_hidden_dims": [8], "low_rank": 2}),
        (rec.GatedDeepCrossNetwork, {"mlp_hidden_dims": [8]}),
        (rec.DeepCrossNetwork, {"mlp_hidden_dims": [8]}),
    ):  # fmt: skip
        name = " ".join([kind.__name__, *map(str, options.values())])
        found[name] = ran(kind(**known, **options), tensor)
    cells, values = columns(attention=True)
    tensor = torch.from_numpy(values).float()
    known["column_idx"], known["cat_embed_input"] = cells.column_idx, cells.cat_embed_input
    small = {"input_dim": 8, "n_heads": 2, "n_blocks": 1}
    for kind, options in (
        (models.ContextAttentionMLP, {"input_dim": 8, "n_blocks": 2, "with_addnorm": True}),
        (models.SelfAttentionMLP, small),
        (models.TabTransformer, {**small, "embed_continuous_method": "standard"}),
        (models.SAINT, small), (models.FTTransformer, small), (models.TabFastFormer, small),
        (models.FTTransformer, {**small, "embed_continuous_method": "piecewise",
                                "quantization_setup": {"age": [-1.0, 0.0, 1.0],
                                                       "hours": [-1.0, 0.5, 1.0]}}),
        (models.TabPerceiver, {"input_dim": 8, "n_latents": 3, "latent_dim": 8,
                               "n_latent_blocks": 1, "n_perceiver_blocks": 2}),
        (rec.AutoInt, {"input_dim": 8, "num_heads": 2, "num_layers": 1,
                       "embed_continuous_method": "standard"}),
        (rec.AutoIntPlus, {"input_dim": 8, "num_heads": 2, "num_layers": 1, "mlp_hidden_dims": [8],
                           "embed_continuous_method": "standard"}),
        (rec.DeepFactorizationMachine, {"num_factors": 4, "mlp_hidden_dims": [8]}),
        (rec.ExtremeDeepFactorizationMachine, {"input_dim": 4, "cin_layer_dims": [4, 4]}),
    ):  # fmt: skip
        name = " ".join([kind.__name__, *map(str, options.values())])
        found[name] = ran(kind(**known, **options), tensor)
    return found


def of_losses():
    from pytorch_widedeep import losses

    rng = np.random.default_rng(2)
    said, aims = (torch.from_numpy(rng.random((ROWS, 1)).astype("float32")) for _ in range(2))
    classes = torch.arange(ROWS) % 3
    wide = torch.from_numpy(rng.standard_normal((ROWS, 3)).astype("float32"))
    found = {}
    for name in (
        "MSELoss", "MSLELoss", "RMSELoss", "RMSLELoss", "TweedieLoss", "L1Loss", "FocalR_L1Loss",
        "FocalR_MSELoss", "FocalR_RMSELoss", "HuberLoss",
    ):  # fmt: skip
        given = said.clone().requires_grad_()
        found[name] = getattr(losses, name)()(given, aims)
        (found[f"gradient of {name}"],) = torch.autograd.grad(found[name], given)
    for name, kind, target in (
        ("quantiles", losses.QuantileLoss([0.1, 0.5, 0.9]), aims),
        ("zeros", losses.ZILNLoss(), aims), ("focal", losses.FocalLoss(), classes),
    ):  # fmt: skip
        given = wide.clone().requires_grad_()
        found[name] = kind(given, target)
        (found[f"gradient of {name}"],) = torch.autograd.grad(found[name], given)
    return found


def of_trainers(folder):
    import driver
    from pytorch_widedeep import Tab2Vec, Trainer, callbacks, metrics, models
    from pytorch_widedeep.self_supervised_training import EncoderDecoderTrainer

    found = {}
    model, inputs = whole()
    driver.fill(model)
    names = {"wide": "X_wide", "deeptabular": "X_tab", "deeptext": "X_text", "deepimage": "X_img"}
    given = {names[name]: each for name, each in inputs.items()}
    target = table()["income"].to_numpy()
    parts = {
        name: torch.optim.Adam(getattr(model, name).parameters(), lr=1e-2)
        for name in (*names, "deephead")
    }
    schedules = {
        name: torch.optim.lr_scheduler.StepLR(each, step_size=2) for name, each in parts.items()
    }
    trainer = Trainer(
        model, objective="regression", optimizers=parts, lr_schedulers=schedules, verbose=0,
        callbacks=[callbacks.LRHistory(n_epochs=3), callbacks.EarlyStopping("train_loss")],
        metrics=[metrics.R2Score()], num_workers=0, device="cpu",
    )  # fmt: skip
    trainer.fit(**given, target=target, n_epochs=3, batch_size=ROWS)
    found["history"] = torch.tensor(trainer.history["train_loss"])
    found["rates"] = torch.tensor([each[-1] for each in trainer.lr_history.values()])
    found["predicted"] = trainer.predict(**given, batch_size=4)
    trainer.save(folder, save_state_dict=True)
    again, _ = whole()
    again.load_state_dict(torch.load(f"{folder}/wd_model.pt"))
    loaded = Trainer(again, objective="regression", verbose=0, num_workers=0, device="cpu")
    found["loaded"] = loaded.predict(**given, batch_size=4)

    cells, values = columns()
    known = {"column_idx": cells.column_idx, "continuous_cols": cells.continuous_cols}
    known["cat_embed_input"] = cells.cat_embed_input
    inner = models.TabNet(**known, n_steps=2)
    classifier = models.WideDeep(deeptabular=inner, pred_dim=3)
    driver.fill(classifier)
    trainer = Trainer(
        classifier, objective="multiclass", metrics=[metrics.Accuracy()], verbose=0, num_workers=0,
        device="cpu",
    )  # fmt: skip
    trainer.fit(
        X_tab=values, target=np.arange(ROWS) % 3, n_epochs=2, batch_size=ROWS,
        feature_importance_sample_size=ROWS,
    )  # fmt: skip
    found["classes"] = trainer.predict_proba(X_tab=values)
    found["importance"] = torch.tensor(list(trainer.feature_importance.values()))
    found["vectors"] = Tab2Vec(cells, classifier, device="cpu").fit_transform(table())

    encoder = models.TabMlp(**known, mlp_hidden_dims=[8, 4])
    decoder = models.TabMlpDecoder(encoder.cat_out_dim + encoder.cont_out_dim, [4, 8])
    for part in (encoder, decoder):
        driver.fill(still(part))
    pretrained = EncoderDecoderTrainer(
        encoder=encoder, decoder=decoder, masked_prob=1.0, verbose=0, num_workers=0, device="cpu"
    )
    pretrained.pretrain(values, n_epochs=2, batch_size=ROWS)
    found["pretrained"] = torch.tensor(pretrained.history["train_loss"])
    return found


def more(model, inputs):
    import driver
    from pytorch_widedeep import models
    from pytorch_widedeep.bayesian_models import BayesianTabMlp, BayesianWide

    logging.disable(logging.WARNING)
    found = of_columns() | of_losses()
    tokens = inputs[2]
    for kind, options in (
        (models.BasicRNN, {"rnn_type": "gru", "bidirectional": True}),
        (models.AttentiveRNN, {"n_layers": 1, "rnn_dropout": 0}),
        (models.StackedAttentiveRNN, {"n_blocks": 2}),
    ):  # fmt: skip
        found[kind.__name__] = ran(kind(20, embed_dim=4, hidden_dim=4, **options), tokens)
    found["Vision"] = ran(
        models.Vision(pretrained_model_setup=None, channel_sizes=[4], kernel_sizes=[3], strides=[2],
                      head_hidden_dims=[4]), inputs[3],
    )  # fmt: skip
    cells, _ = columns()
    random = BayesianTabMlp(
        cells.column_idx, cat_embed_input=cells.cat_embed_input, mlp_hidden_dims=[8],
        continuous_cols=cells.continuous_cols,
    )  # fmt: skip
    for name, each, given in (
        ("bayesian columns", random, inputs[1]), ("bayesian wide", BayesianWide(20, 1), inputs[0])
    ):  # fmt: skip
        driver.fill(each)
        found[name] = each.eval()(given)
    with tempfile.TemporaryDirectory() as folder:
        return found | of_trainers(folder)
