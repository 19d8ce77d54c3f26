"""A policy-gradient loop on a small built-in environment: every environment step reads an action back."""
from __future__ import annotations

import importlib
import time

import numpy as np


class Pole:
    """The cart-pole equations of Barto, Sutton and Anderson (1983)."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def reset(self):
        self.state = self.random.uniform(-0.05, 0.05, 4)
        return self.state.astype(np.float32)

    def step(self, action):
        x, v, a, w = self.state
        force = 10.0 if action else -10.0
        c, s = np.cos(a), np.sin(a)
        t = (force + 0.05 * w * w * s) / 1.1
        acc = (9.8 * s - c * t) / (0.5 * (4 / 3 - 0.1 * c * c / 1.1))
        self.state = np.array([x + 0.02 * v, v + 0.02 * (t - 0.05 * acc * c / 1.1), a + 0.02 * w, w + 0.02 * acc])
        return self.state.astype(np.float32), abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21


def run(library, device, episodes=12, length=64):
    """Microseconds an environment step, the updates included, after two warm-up episodes."""
    torch = importlib.import_module(library)
    nn = importlib.import_module(library + ".nn")
    optim = importlib.import_module(library + ".optim")
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2)).to(device)
    opt = optim.Adam(policy.parameters(), lr=1e-2)
    env = Pole(0)
    total, steps = 0.0, 0
    for episode in range(episodes + 2):
        started = time.perf_counter()
        obs, logs = env.reset(), []
        for _ in range(length):
            x = torch.from_numpy(obs).to(device)
            logp = torch.log_softmax(policy(x), -1)
            action = int(logp.detach().exp()[1].item() > env.random.random())
            logs.append(logp[action])
            obs, done = env.step(action)
            if done:
                obs = env.reset()
        loss = -torch.stack(logs).sum() / length
        opt.zero_grad()
        loss.backward()
        opt.step()
        loss.item()
        if episode >= 2:
            total += time.perf_counter() - started
            steps += length
    return 1e6 * total / steps
