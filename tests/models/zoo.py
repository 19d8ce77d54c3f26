"""Small models and their training runs, written once for both libraries: run by torch to make the golden losses, by us in the tests."""
from __future__ import annotations

import importlib

import numpy as np


def numbers(model, torch, seed):
    """Fill a model's parameters from NumPy, the same in both libraries."""
    r = np.random.default_rng(seed)
    with torch.no_grad():
        for p in model.parameters():
            scale = 1 / max(1, int(np.prod(p.shape[1:]))) ** 0.5 if p.dim() > 1 else 0.1
            p.copy_(torch.from_numpy((scale * r.standard_normal(tuple(p.shape))).astype(np.float32)))


class Net:
    """Names of one library."""

    def __init__(self, library):
        self.torch = importlib.import_module(library)
        self.nn = importlib.import_module(library + ".nn")
        self.F = importlib.import_module(library + ".nn.functional")
        self.optim = importlib.import_module(library + ".optim")


def mlp(n):
    nn = n.nn
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.BatchNorm1d(32), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 5))
    return model, lambda m, x, y: n.F.cross_entropy(m(x), y), ((8, 12), (8, 5))


def resnet(n):
    nn, F = n.nn, n.F

    class Block(nn.Module):
        def __init__(self, i, o, stride):
            super().__init__()
            self.c1, self.b1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
            self.c2, self.b2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
            self.short = nn.Sequential() if stride == 1 and i == o else nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

        def forward(self, x):
            h = F.relu(self.b1(self.c1(x)))
            return F.relu(self.b2(self.c2(h)) + self.short(x))

    model = nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), Block(8, 8, 1), Block(8, 16, 2), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1),
                          nn.Flatten(), nn.Linear(16, 5))
    return model, lambda m, x, y: F.cross_entropy(m(x), y, label_smoothing=0.1), ((4, 3, 16, 16), (4, 5))


def lstm(n):
    nn = n.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(6, 10, num_layers=2, batch_first=True, bidirectional=True)
            self.gru = nn.GRU(20, 8, batch_first=True)
            self.head = nn.Linear(8, 5)

        def forward(self, x):
            h, (_, c) = self.rnn(x)
            h, _ = self.gru(h + c.mean())
            return self.head(h[:, -1])
    return Model(), lambda m, x, y: n.F.cross_entropy(m(x), y), ((4, 7, 6), (4, 5))


def transformer(n):
    nn, torch = n.nn, n.torch

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Linear(6, 16)
            self.position = nn.Parameter(torch.zeros(1, 7, 16))
            layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True, norm_first=True, activation="gelu")
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(16, 5)

        def forward(self, x):
            mask = torch.triu(torch.full((7, 7), float("-inf"), device=x.device), diagonal=1)
            h = self.encoder(self.embed(x) + self.position, mask=mask)
            return self.head(h.mean(1))
    return Model(), lambda m, x, y: n.F.cross_entropy(m(x), y), ((4, 7, 6), (4, 5))


def autoencoder(n):
    nn, F, torch = n.nn, n.F, n.torch

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.GroupNorm(2, 8), nn.LeakyReLU(0.2), nn.Conv2d(8, 16, 4, 2, 1), nn.SiLU())
            self.up = nn.Sequential(nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.InstanceNorm2d(8, affine=True), nn.ELU(), nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), nn.Conv2d(8, 3, 3, padding=1), nn.Sigmoid())

        def forward(self, x):
            return self.up(self.down(x))

    def loss(m, x, y):
        out = m(x)
        return F.mse_loss(out, torch.sigmoid(x)) + 0.1 * F.smooth_l1_loss(out, torch.sigmoid(x)) + 0.01 * out.abs().mean()
    return Model(), loss, ((2, 3, 16, 16), (2, 5))


MODELS = {"mlp": mlp, "resnet": resnet, "lstm": lstm, "transformer": transformer, "autoencoder": autoencoder}
OPTIMIZERS = {
    "mlp": lambda n, p: n.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "resnet": lambda n, p: n.optim.AdamW(p, lr=3e-3, weight_decay=0.05),
    "lstm": lambda n, p: n.optim.Adam(p, lr=1e-2, amsgrad=True),
    "transformer": lambda n, p: n.optim.Adam(p, lr=3e-3),
    "autoencoder": lambda n, p: n.optim.RMSprop(p, lr=1e-3, momentum=0.5),
}


def train(name, library, device, steps=6):
    """Losses of `steps` steps with gradient clipping and a cosine schedule; and the sum of all parameters at the end."""
    n = Net(library)
    torch = n.torch
    model, loss_of, (xs, ys) = MODELS[name](n)
    numbers(model, torch, 1)
    model.to(device)
    model.train()
    opt = OPTIMIZERS[name](n, model.parameters())
    schedule = n.optim.lr_scheduler.CosineAnnealingLR(opt, 10)
    r = np.random.default_rng(2)
    losses = []
    for _ in range(steps):
        x = torch.from_numpy(r.standard_normal(xs).astype(np.float32)).to(device)
        y = torch.from_numpy(r.integers(0, ys[1], ys[0])).to(device)
        opt.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        n.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        schedule.step()
        losses.append(loss.item())
    model.eval()
    total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
    with torch.no_grad():
        final = loss_of(model, x, y).item()
    return losses, total, final
