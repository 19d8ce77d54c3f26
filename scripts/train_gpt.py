"""Train a character GPT on the source text of Python's standard library.

    python scripts/train_gpt.py --device xla
    python scripts/train_gpt.py --device xla --steps 2000 --resume

Prints samples as it goes; writes runs/gpt/checkpoint.pt.
"""
import argparse
import math
import sysconfig
import time
from pathlib import Path

import numpy as np

import lazy_tensor as torch
import lazy_tensor.nn.functional as F
from lazy_tensor import nn


class Attention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads, dropout)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary, context, width, layers, heads, dropout):
        super().__init__()
        self.context = context
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*[Block(width, heads, dropout) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        self.apply(self.initialise)

    @staticmethod
    def initialise(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens, targets=None):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.tokens(tokens) + self.positions(positions))
        logits = self.head(self.norm(self.blocks(x)))
        if targets is None:
            return logits
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))

    @torch.no_grad()
    def sample(self, prompt, count, temperature=0.8):
        """Continue a 1-d tensor of tokens; the window is padded to its full length, so one program serves every position."""
        self.eval()
        tokens = prompt.tolist()
        for _ in range(count):
            window = tokens[-self.context:]
            x = torch.tensor([window + [0] * (self.context - len(window))], device=prompt.device)
            logits = self(x)[0, len(window) - 1]
            tokens.append(int(torch.multinomial(F.softmax(logits / temperature, -1), 1)))
        self.train()
        return tokens


def text(limit):
    folder = Path(sysconfig.get_paths()["stdlib"])
    parts = [p.read_text(encoding="utf-8", errors="ignore") for p in sorted(folder.glob("*.py"))]
    return "".join(c for c in "\n".join(parts) if c == "\n" or 32 <= ord(c) < 127)[:limit]


def groups(model, decay):
    """Matrices decay, vectors do not."""
    params = [p for p in model.parameters() if p.requires_grad]
    return [{"params": [p for p in params if p.dim() >= 2], "weight_decay": decay},
            {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0}]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", default="xla")
    p.add_argument("--steps", type=int, default=600)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--accumulate", type=int, default=2, help="micro-batches for each step")
    p.add_argument("--context", type=int, default=128)
    p.add_argument("--width", type=int, default=128)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--dropout", type=float, default=0.1)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--warm-up", type=int, default=50)
    p.add_argument("--clip", type=float, default=1.0)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--bf16", action="store_true")
    p.add_argument("--resume", action="store_true")
    p.add_argument("--stop-after", type=int, help="end after this many steps of the schedule (to resume later)")
    p.add_argument("--every", type=int, default=100, help="steps between evaluations, samples and checkpoints")
    p.add_argument("--out", type=Path, default=Path("runs/gpt"))
    args = p.parse_args()

    device = torch.device(args.device)
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    checkpoint = args.out / "checkpoint.pt"

    source = text(4_000_000)
    letters = sorted(set(source))
    index = {c: i for i, c in enumerate(letters)}
    data = torch.tensor([index[c] for c in source])
    cut = int(0.95 * len(data))
    train, test = data[:cut], data[cut:]
    print(f"{len(data):,} characters, {len(letters)} different")

    def batch(part, random):
        starts = random.integers(0, len(part) - args.context - 1, args.batch_size)
        x = torch.stack([part[int(i):int(i) + args.context] for i in starts])
        y = torch.stack([part[int(i) + 1:int(i) + 1 + args.context] for i in starts])
        return x.to(device), y.to(device)

    model = GPT(len(letters), args.context, args.width, args.layers, args.heads, args.dropout).to(device)
    optimizer = torch.optim.AdamW(groups(model, 0.1), lr=args.lr, betas=(0.9, 0.95))
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [
        torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=args.warm_up),
        torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, args.steps - args.warm_up), eta_min=args.lr / 10)], [args.warm_up])
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters on {device}")
    first = 0
    if args.resume:
        if not checkpoint.exists():
            raise SystemExit(f"--resume: there is no {checkpoint}; leave --resume out to start, or name the run's folder with --out")
        state = torch.load(checkpoint, map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        torch.set_rng_state(state["rng"])
        first = state["step"]
        print(f"resumed after step {first}")

    @torch.no_grad()
    def test_loss():
        model.eval()
        random = np.random.default_rng(1)
        loss = sum(model(*batch(test, random)).item() for _ in range(8)) / 8
        model.train()
        return loss

    last = min(args.steps, args.stop_after or args.steps)
    started, seen = time.time(), 0
    for step in range(first, last):
        random = np.random.default_rng((args.seed, step))
        optimizer.zero_grad()
        total = 0.0
        for _ in range(args.accumulate):
            x, y = batch(train, random)
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=args.bf16):
                loss = model(x, y) / args.accumulate
            loss.backward()
            total = total + loss.detach()
        norm = nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        scheduler.step()
        seen += args.accumulate * x.numel()
        if (step + 1) % 20 == 0:
            print(f"step {step + 1:5}: loss {total.item():.4f}  norm {norm.item():.2f}  lr {scheduler.get_last_lr()[0]:.2e}  "
                  f"{seen / (time.time() - started):,.0f} characters/s")
        if (step + 1) % args.every == 0 or step + 1 == last:
            loss = test_loss()
            print(f"step {step + 1:5}: test loss {loss:.4f} ({loss / math.log(2):.3f} bits a character)")
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
                        "rng": torch.get_rng_state(), "step": step + 1}, checkpoint)
    prompt = torch.tensor([index[c] for c in "def "], device=device)
    print("".join(letters[i] for i in model.sample(prompt, 200)))


if __name__ == "__main__":
    main()
