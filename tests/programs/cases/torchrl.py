"""PPO's loss on a pendulum; estimates of values, A2C, DQN, TD3, SAC, a buffer, a collector"""

import numpy as np
import torch

PACKAGE = "torchrl"


def in_order(number, *last):
    """Numbers that differ, in the shape of a batch of 8."""
    rng = np.random.default_rng(number)
    return torch.from_numpy(rng.standard_normal((8, *last)).astype("float32"))


def an_actor():
    from tensordict.nn import InteractionType, NormalParamExtractor, TensorDictModule
    from torchrl.modules import MLP, ProbabilisticActor, TanhNormal

    layers = torch.nn.Sequential(MLP(3, 2, num_cells=[16]), NormalParamExtractor())
    return ProbabilisticActor(
        TensorDictModule(layers, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        return_log_prob=True,
        default_interaction_type=InteractionType.DETERMINISTIC,
    )


def a_critic(kind="ValueOperator", inputs=3, **more):
    from torchrl import modules

    return getattr(modules, kind)(modules.MLP(inputs, 1, num_cells=[16]), **more)


def a_batch(**more):
    from tensordict import TensorDict

    done = torch.zeros(8, 1, dtype=torch.bool)
    done[4] = True
    return TensorDict(
        {
            "observation": in_order(0, 3), "action": in_order(1, 1).tanh() * 0.9,
            "action_log_prob": -0.5 - in_order(2).abs(),
            "next": {
                "observation": in_order(3, 3), "reward": in_order(4, 1), "done": done,
                "terminated": done, **more.pop("next", {}),
            },
            **more,
        },
        batch_size=[8],
    )  # fmt: skip


def build():
    from tensordict import TensorDict
    from torchrl.objectives import ClipPPOLoss

    model = ClipPPOLoss(an_actor(), a_critic(in_keys=["observation"]), entropy_bonus=False)
    data = a_batch(advantage=in_order(5, 1), value_target=in_order(6, 1))
    names, values = zip(*data.flatten_keys(".").items(), strict=True)

    def loss(model, *values):
        batch = TensorDict(dict(zip(names, values, strict=True)), [8]).unflatten_keys(".")
        found = model(batch)
        return found["loss_objective"] + found["loss_critic"]

    return model, values, loss


def gradients(model, losses):
    """What the losses are, and the norms of the parameters' gradients of their sum."""
    parts = [value for name, value in losses.items() if name.startswith("loss")]
    model.zero_grad()
    sum(parts).backward()
    norms = [each.grad.norm() for each in model.parameters() if each.grad is not None]
    return torch.stack([*(each.detach() for each in parts), *norms])


def more(model, inputs):
    import driver
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule
    from torchrl import objectives
    from torchrl.collectors import Collector
    from torchrl.data import (
        Bounded,
        Categorical,
        Composite,
        LazyTensorStorage,
        TensorDictReplayBuffer,
    )
    from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement
    from torchrl.envs import (
        CatTensors,
        Compose,
        DoubleToFloat,
        ObservationNorm,
        PendulumEnv,
        RewardSum,
        StepCounter,
        TransformedEnv,
        UnsqueezeTransform,
    )
    from torchrl.modules import QValueActor
    from torchrl.objectives.value import GAE, TD1Estimator, TDLambdaEstimator, VTrace

    found = {}
    torch.manual_seed(0)
    env = TransformedEnv(
        PendulumEnv(seed=0),
        Compose(
            UnsqueezeTransform(dim=-1, in_keys=["th", "thdot"], in_keys_inv=["th", "thdot"]),
            CatTensors(["th", "thdot", "th"], "observation", del_keys=False),
            ObservationNorm(0.0, 0.5, in_keys=["observation"]),
            DoubleToFloat(), RewardSum(), StepCounter(20),
        ),
    )  # fmt: skip
    start = env.reset(PendulumEnv.gen_params()).update({"th": torch.tensor([0.5])})
    actor = an_actor()
    driver.fill(actor)
    path = env.rollout(12, actor, tensordict=start, auto_reset=False, break_when_any_done=False)
    for name in ("observation", "action", "action_log_prob", "step_count"):
        found[name] = path[name]
    found["return"] = path["next", "episode_reward"]

    critic = a_critic(in_keys=["observation"])
    driver.fill(critic)
    for kind, options in {
        GAE: {"lmbda": 0.95, "average_gae": True},
        TD1Estimator: {},
        TDLambdaEstimator: {"lmbda": 0.9},
    }.items():
        estimate = kind(gamma=0.9, value_network=critic, **options)
        found[kind.__name__] = estimate(path.clone().detach())["advantage"]
    traced = VTrace(gamma=0.9, actor_network=actor, value_network=critic)
    found["VTrace"] = traced(path.clone().detach())["advantage"]

    discrete = QValueActor(
        torch.nn.Linear(3, 4),
        in_keys=["observation"],
        spec=Categorical(4),
        action_space="categorical",
    )
    action = torch.arange(8) % 4
    for name, loss, batch in (
        ("A2C", objectives.A2CLoss(an_actor(), a_critic(in_keys=["observation"])),
         a_batch(advantage=in_order(5, 1), value_target=in_order(6, 1))),
        ("REINFORCE", objectives.ReinforceLoss(an_actor(), a_critic(in_keys=["observation"])),
         a_batch(advantage=in_order(5, 1), value_target=in_order(6, 1))),
        ("DQN", objectives.DQNLoss(discrete, action_space="categorical", delay_value=True),
         a_batch(action=action)),
        ("DDPG", objectives.DDPGLoss(
            TensorDictModule(torch.nn.Linear(3, 1), ["observation"], ["action"]),
            a_critic(inputs=4, in_keys=["observation", "action"])), a_batch()),
        ("TD3", objectives.TD3Loss(
            TensorDictModule(torch.nn.Linear(3, 1), ["observation"], ["action"]),
            a_critic(inputs=4, in_keys=["observation", "action"]), bounds=(-1, 1),
            policy_noise=0.0), a_batch()),
        ("SAC", objectives.SACLoss(
            an_actor(), a_critic(inputs=4, in_keys=["observation", "action"]),
            target_entropy=-1.0), a_batch()),
        ("IQL", objectives.IQLLoss(
            an_actor(), a_critic(inputs=4, in_keys=["observation", "action"]),
            a_critic(in_keys=["observation"])), a_batch()),
        ("BC", objectives.BCLoss(an_actor()), a_batch()),
    ):  # fmt: skip
        driver.fill(loss)
        torch.manual_seed(0)
        found[name] = gradients(loss, loss(batch))
        state = loss.state_dict()
        found[f"{name} state"] = torch.tensor(float(len(state)))
        if name in ("DQN", "SAC"):
            soft = objectives.SoftUpdate(loss, eps=0.9)
            soft.step()
            found[f"{name} targets"] = torch.stack(
                [
                    each.norm()
                    for key, each in loss.state_dict().items()
                    if "target" in key and each.ndim
                ]
            )

    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(16),
        sampler=SamplerWithoutReplacement(shuffle=False),
        batch_size=4,
    )
    for _ in range(2):
        buffer.extend(a_batch())
    found["sampled"] = buffer.sample()["action"]
    found["sampled later"] = buffer.sample()["next", "reward"]
    torch.manual_seed(0)
    collector = Collector(env, actor, frames_per_batch=15, total_frames=30)
    found["collected"] = torch.stack([each["action"] for each in collector])
    collector.shutdown()
    spec = Composite(a=Bounded(-1.0, 1.0, (2,)), b=Categorical(4))
    inside = spec.project(TensorDict({"a": torch.tensor([3.0, -0.5]), "b": torch.tensor(2)}))
    found["projected"] = inside["a"]
    found["encoded"] = spec["b"].to_one_hot(torch.tensor(2))
    return found
