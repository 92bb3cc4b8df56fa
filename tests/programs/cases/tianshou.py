"""PPO, A2C, TRPO, Reinforce and DQN learn in a world: weights, actions, saved policies"""

import logging
import tempfile
import time

import numpy as np
import torch

PACKAGE = "tianshou"
# The writer of `torch.utils.tensorboard`, which it imports, is that of tensorboardX in flambeau.
REQUIRES = ["tensorboardX"]


def a_world(continuous=False):
    import gymnasium as gym

    class Mass(gym.Env):
        """A mass that is pushed left or right, and is to stay in the middle."""

        action_space = gym.spaces.Box(-1.0, 1.0, (1,)) if continuous else gym.spaces.Discrete(2)
        observation_space = gym.spaces.Box(-4.0, 4.0, (2,), np.float32)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.time, self.state = 0, np.array([0.5, 0.0], np.float32)
            return self.state, {}

        def step(self, action):
            self.time += 1
            place, speed = self.state
            push = float(np.reshape(action, -1)[0]) if continuous else 2.0 * action - 1
            speed = np.clip(speed + 0.1 * push, -4, 4)
            self.state = np.array([np.clip(place + 0.1 * speed, -4, 4), speed], np.float32)
            return self.state, float(1 - abs(self.state[0])), False, self.time >= 8, {}

    return Mass()


def algorithm_of(name, world):
    from tianshou import algorithm as kinds
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
    from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy, ProbabilisticActorPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.utils.net.common import Net
    from tianshou.utils.net.continuous import ContinuousActorProbabilistic
    from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic

    adam = AdamOptimizerFactory(lr=1e-2)

    def net():
        return Net(state_shape=(2,), hidden_sizes=[8])

    if name == "DQN":
        # Its returns are written into an array that `numpy()` gives.
        policy = DiscreteQLearningPolicy(
            model=Net(state_shape=(2,), action_shape=2, hidden_sizes=[8]),
            action_space=world.action_space, eps_training=0.0,
        )  # fmt: skip
        return kinds.DQN(policy=policy, optim=adam, n_step_return_horizon=3, target_update_freq=4)
    if name == "A2C":
        actor = ContinuousActorProbabilistic(
            preprocess_net=net(), action_shape=(1,), unbounded=True, conditioned_sigma=True
        )
        policy = ProbabilisticActorPolicy(
            actor=actor, action_space=world.action_space,
            dist_fn=lambda parts: torch.distributions.Independent(
                torch.distributions.Normal(*parts), 1
            ),
        )  # fmt: skip
    else:
        actor = DiscreteActor(preprocess_net=net(), action_shape=2, softmax_output=False)
        policy = DiscreteActorPolicy(actor=actor, action_space=world.action_space)
    if name == "Reinforce":
        return kinds.Reinforce(policy=policy, optim=adam)
    critic = DiscreteCritic(preprocess_net=net())
    options = {"PPO": {"max_grad_norm": 0.5}, "TRPO": {"trust_region_size": 0.01}}.get(name, {})
    return getattr(kinds, name)(policy=policy, critic=critic, optim=adam, **options)


def main():
    import driver
    from tianshou.data import Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv
    from tianshou.trainer import OffPolicyTrainerParams, OnPolicyTrainerParams

    logging.disable(logging.WARNING)
    seen = np.random.default_rng(0).standard_normal((5, 2)).astype("float32")
    found = {}

    def trained(name, compiled=False):
        np.random.seed(0)  # noqa: NPY002 (batches are drawn by it)
        torch.manual_seed(0)
        continuous = name == "A2C"
        algorithm = algorithm_of(name, a_world(continuous))
        driver.fill(algorithm)
        if compiled:
            algorithm.policy.actor.preprocess.model.model.compile()
        worlds = DummyVectorEnv([lambda: a_world(continuous)] * 2)
        worlds.seed(0)
        worlds.action_space[0].seed(0)
        collector = Collector(algorithm, worlds, VectorReplayBuffer(64, 2))
        collector.reset()
        options = {
            "training_collector": collector, "max_epochs": 2, "epoch_num_steps": 32,
            "collection_step_num_env_steps": 16, "batch_size": 8, "test_collector": None,
            "show_progress": False, "verbose": False,
        }  # fmt: skip
        if name == "DQN":
            params = OffPolicyTrainerParams(
                **options, update_step_num_gradient_steps_per_sample=0.5
            )
        else:
            params = OnPolicyTrainerParams(**options, update_step_num_repetitions=2)
        seconds, update = [], algorithm.update

        def timed(*args, **kwargs):
            began = time.perf_counter()
            result = update(*args, **kwargs)
            seconds.append(time.perf_counter() - began)
            return result

        algorithm.update = timed
        algorithm.run_training(params)
        del algorithm.update
        return algorithm, seconds, collector

    for name in ("PPO", "A2C", "TRPO", "Reinforce", "DQN"):
        algorithm, seconds, collector = trained(name)
        if name == "PPO":
            found["seconds"] = seconds
        found[f"{name}, weights"] = torch.stack(
            [each.detach().norm() for each in algorithm.parameters()]
        )
        found[f"{name}, actions"] = torch.as_tensor(np.asarray(collector.buffer.act))
        found[f"{name}, rewards"] = torch.as_tensor(np.asarray(collector.buffer.rew))
        with tempfile.NamedTemporaryFile() as file:
            torch.save(algorithm.state_dict(), file.name)
            other = algorithm_of(name, a_world(name == "A2C"))
            other.load_state_dict(torch.load(file.name))
        policy = other.policy
        result = (policy.model if name == "DQN" else policy.actor)(seen)[0]
        found[f"{name}, loaded"] = result[0] if isinstance(result, tuple) else result
    algorithm, found["compiled seconds"], _ = trained("PPO", compiled=True)
    norms = [each.detach().norm() for each in algorithm.parameters()]
    return found | {"compiled PPO, weights": torch.stack(norms)}
