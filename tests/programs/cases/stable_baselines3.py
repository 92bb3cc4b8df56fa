"""PPO, A2C and DQN learn to keep a mass in the middle: weights, rewards, a saved policy"""

import tempfile
import time

import numpy as np
import torch

PACKAGE = "stable-baselines3"


def a_world():
    import gymnasium

    class Mass(gymnasium.Env):
        """A mass that is pushed left or right, and is to stay in the middle."""

        action_space = gymnasium.spaces.Discrete(2)
        observation_space = gymnasium.spaces.Box(-4.0, 4.0, (2,), np.float32)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.time, self.state = 0, np.array([0.5, 0.0], np.float32)
            return self.state, {}

        def step(self, action):
            self.time += 1
            place, speed = self.state
            speed = np.clip(speed + (0.1 if action else -0.1), -4, 4)
            self.state = np.array([np.clip(place + 0.1 * speed, -4, 4), speed], np.float32)
            return self.state, float(1 - abs(self.state[0])), False, self.time >= 8, {}

    return Mass()


def made(kind, **more):
    import driver

    algorithm = kind("MlpPolicy", a_world(), seed=0, device="cpu", **more)
    driver.fill(algorithm.policy)
    return algorithm


def main():
    from stable_baselines3 import A2C, DQN, PPO
    from stable_baselines3.common.evaluation import evaluate_policy

    seen = torch.from_numpy(np.random.default_rng(0).standard_normal((5, 2)).astype("float32"))
    small = {"policy_kwargs": {"net_arch": [8, 8]}}
    found = {}

    def note(name, algorithm):
        found[f"{name} weights"] = torch.stack(
            [each.detach().norm() for each in algorithm.policy.parameters()]
        )
        found[f"{name} rewards"] = torch.tensor(evaluate_policy(algorithm, a_world(), 2))

    ppo = made(PPO, n_steps=16, batch_size=8, n_epochs=2, **small)
    values, likelihood, entropy = ppo.policy.evaluate_actions(seen, torch.arange(5) % 2)
    found |= {"values": values, "likelihood": likelihood, "entropy": entropy}

    def learned(ppo):
        seconds = []
        for _ in range(4):
            began = time.perf_counter()
            # 16 steps of the world, and 4 of the optimizer.
            ppo.learn(16, reset_num_timesteps=False)
            seconds.append(time.perf_counter() - began)
        return seconds

    found["seconds"] = learned(ppo)
    note("PPO", ppo)
    compiled = made(PPO, n_steps=16, batch_size=8, n_epochs=2, **small)
    for name in ("forward", "evaluate_actions", "predict_values"):
        setattr(compiled.policy, name, torch.compile(getattr(compiled.policy, name)))
    found["compiled seconds"] = learned(compiled)
    note("compiled PPO", compiled)
    with tempfile.TemporaryDirectory() as folder:
        ppo.save(f"{folder}/ppo")
        loaded = PPO.load(f"{folder}/ppo", env=a_world(), device="cpu")
    found["loaded values"] = loaded.policy.predict_values(seen)
    a2c = made(A2C, n_steps=8, **small)
    a2c.learn(16)
    note("A2C", a2c)
    dqn = made(
        DQN, learning_starts=8, batch_size=8, buffer_size=64, train_freq=4,
        target_update_interval=8, **small,
    )  # fmt: skip
    dqn.learn(24)
    note("DQN", dqn)
    return found
