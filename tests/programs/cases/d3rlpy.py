"""seven offline algorithms learn from a table of episodes: losses, values, actions, saved models"""

import tempfile
import time

import numpy as np
import torch

PACKAGE = "d3rlpy"


def episodes(discrete):
    """Three episodes of ten steps, whose reward is for small states."""
    import d3rlpy

    rng = np.random.default_rng(0)
    seen = rng.standard_normal((30, 3)).astype("float32")
    done = rng.integers(0, 2, (30, 1)) if discrete else rng.uniform(-1, 1, (30, 2))
    return d3rlpy.dataset.MDPDataset(
        seen, done.astype("int64" if discrete else "float32"),
        (1 - np.abs(seen[:, :1])).astype("float32"), (np.arange(30) % 10 == 9).astype("float32"),
    )  # fmt: skip


def main():
    import d3rlpy
    from d3rlpy import algos

    seen = np.random.default_rng(1).standard_normal((4, 3)).astype("float32")
    networks = d3rlpy.models.VectorEncoderFactory([8, 8])
    both = {"actor_encoder_factory": networks, "critic_encoder_factory": networks}
    one = {"encoder_factory": networks, "batch_size": 8}
    found = {}

    def fitted(config, discrete):
        d3rlpy.seed(0)
        data = episodes(discrete)
        algorithm = config.create(device=False)
        algorithm.build_with_dataset(data)
        seconds, began = [], [time.perf_counter()]

        def note(*_):
            seconds.append(time.perf_counter() - began[0])
            began[0] = time.perf_counter()

        metrics = algorithm.fit(
            data, n_steps=6, n_steps_per_epoch=2, show_progress=False, callback=note,
            logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
            evaluators={"error": d3rlpy.metrics.TDErrorEvaluator()},
        )  # fmt: skip
        return algorithm, seconds, metrics

    for name, config in {
        "DQN": algos.DQNConfig(**one, target_update_interval=2),
        "DoubleDQN by quantiles": algos.DoubleDQNConfig(
            **one, q_func_factory=d3rlpy.models.QRQFunctionFactory(8), n_critics=2
        ),
        "DiscreteCQL": algos.DiscreteCQLConfig(**one),
        "SAC": algos.SACConfig(**both, batch_size=8),
        "CQL": algos.CQLConfig(**both, batch_size=8, n_action_samples=3),
        "IQL": algos.IQLConfig(**both, value_encoder_factory=networks, batch_size=8),
        "TD3PlusBC": algos.TD3PlusBCConfig(
            **both, batch_size=8,
            observation_scaler=d3rlpy.preprocessing.StandardObservationScaler(),
        ),
    }.items():  # fmt: skip
        discrete = "DQN" in name or "Discrete" in name
        algorithm, seconds, metrics = fitted(config, discrete)
        if name == "DQN":
            found["seconds"] = seconds
        found[f"{name}, losses"] = torch.tensor(
            [[each[key] for key in sorted(each) if "time" not in key] for _, each in metrics]
        )
        actions = algorithm.predict(seen)
        found[f"{name}, actions"] = torch.from_numpy(actions)
        found[f"{name}, values"] = torch.from_numpy(algorithm.predict_value(seen, actions))
        with tempfile.TemporaryDirectory() as folder:
            algorithm.save(f"{folder}/all.d3")
            loaded = d3rlpy.load_learnable(f"{folder}/all.d3")
        found[f"{name}, loaded"] = torch.from_numpy(loaded.predict_value(seen, actions))
    return found
