"""Recurrent layers: one scan for each layer and direction, its input projection hoisted out as one matmul; and the cells.

`rnn`, `lstm` and `gru` here are private ops on flat weights (nn's layers call them); packed sequences come as lengths.
"""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._common import check
from lazy_tensor.ops._define import composite, op

GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


def _dot(x, w):
    """x @ w.T for w (out, in)."""
    return jax.lax.dot_general(x, w, (((x.ndim - 1,), (1,)), ((), ())))


def _step(mode, projected, h, c, w_hh, b_hh, w_hr):
    """One step from the projected input (bias of the input side included). Returns (h, c)."""
    if mode == "GRU":
        r_x, z_x, n_x = jnp.split(projected, 3, -1)
        hidden = _dot(h, w_hh)
        if b_hh is not None:
            hidden = hidden + b_hh
        r_h, z_h, n_h = jnp.split(hidden, 3, -1)
        r, z = jax.nn.sigmoid(r_x + r_h), jax.nn.sigmoid(z_x + z_h)
        n = jnp.tanh(n_x + r * n_h)
        return n + z * (h - n), c
    gates = projected + _dot(h, w_hh)
    if mode == "LSTM":
        i, f, g, o = jnp.split(gates, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h if w_hr is None else _dot(h, w_hr)), c
    return (jnp.tanh(gates) if mode == "RNN_TANH" else jax.nn.relu(gates)), c


def _direction(mode, x, h, c, weights, lengths, reverse):
    """One layer in one direction: x (T, N, in) -> (T, N, out), last h, last c. `lengths` (N,) freeze finished sequences."""
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    projected = _dot(x, w_ih)
    if b_ih is not None:
        projected = projected + b_ih
    if b_hh is not None and mode != "GRU":  # GRU's new gate needs the two biases apart
        projected = projected + b_hh
        b_hh = None
    has_c = c is not None
    steps = x.shape[0]

    def body(carry, given):
        h, c = carry
        projected, t = given
        new_h, new_c = _step(mode, projected, h, c, w_hh, b_hh, w_hr)
        if lengths is None:
            return (new_h, new_c), new_h
        alive = (t < lengths)[:, None]
        new_h = jnp.where(alive, new_h, h)
        new_c = jnp.where(alive, new_c, c) if has_c else None
        return (new_h, new_c), jnp.where(alive, new_h, jnp.zeros((), new_h.dtype))

    (h, c), out = jax.lax.scan(body, (h, c), (projected, jnp.arange(steps)), reverse=reverse)
    return out, h, c


def _layers(mode, x, h0, c0, flat, has_biases, num_layers, dropout, bidirectional, proj, lengths, key):
    directions = 2 if bidirectional else 1
    per = 2 + (2 if has_biases else 0) + (1 if proj else 0)
    check(len(flat) == num_layers * directions * per, f"{mode.lower()}: expected {num_layers * directions * per} weights "
          f"({num_layers} layers, {directions} directions, {per} each), got {len(flat)}")
    out_h, out_c = [], []
    for layer in range(num_layers):
        parts = []
        for d in range(directions):
            i = layer * directions + d
            w = list(flat[i * per:(i + 1) * per])
            w_hr = w.pop() if proj else None
            w_ih, w_hh, b_ih, b_hh = w if has_biases else (*w, None, None)
            y, h, c = _direction(mode, x, h0[i], None if c0 is None else c0[i], (w_ih, w_hh, b_ih, b_hh, w_hr), lengths, d == 1)
            parts.append(y)
            out_h.append(h)
            out_c.append(c)
        x = parts[0] if directions == 1 else jnp.concatenate(parts, -1)
        if key is not None and layer < num_layers - 1:
            keep = jax.random.bernoulli(jax.random.fold_in(key, layer), np.float32(1 - dropout), x.shape)
            x = jnp.where(keep, x * jnp.asarray(0.0 if dropout == 1 else 1 / (1 - dropout)).astype(x.dtype), jnp.zeros((), x.dtype))
    h = jnp.stack(out_h)
    return x, h, (None if c0 is None else jnp.stack(out_c))


def _run(mode, input, h0, c0, params, has_biases, num_layers, p, bidirectional, batch_first, proj, lengths, key):
    name = mode.lower()
    told = f"{name}: given input {input.dtype.name}{list(input.shape)}, hidden state {list(h0.shape)}"
    batched = input.ndim == 3
    check(input.ndim in (2, 3), f"{told}; Expected input to be 2D or 3D, got {input.ndim}D instead")
    check(h0.ndim == input.ndim, f"{told}; input and hidden state must both be batched or both unbatched")
    check(params[0].dtype == input.dtype, f"{told}; input and weights must have the same dtype, got weights {params[0].dtype.name}")
    x = input if batched else input[:, None]
    if batched and batch_first:
        x = jnp.swapaxes(x, 0, 1)
    if not batched:
        h0, c0 = h0[:, None], None if c0 is None else c0[:, None]
    check(params[0].shape[1] == x.shape[2], f"{told}; input.size(-1) must be equal to input_size. Expected {params[0].shape[1]}, got "
          f"{x.shape[2]}")
    n = num_layers * (2 if bidirectional else 1)
    hidden = params[0].shape[0] // GATES[mode]
    out_size = params[1].shape[1]
    check(h0.shape == (n, x.shape[1], out_size), f"Expected hidden size {(n, x.shape[1], out_size)}, got {list(h0.shape)} ({told})")
    check(c0 is None or c0.shape == (n, x.shape[1], hidden), f"Expected hidden[1] size {(n, x.shape[1], hidden)}, got "
          f"{list(c0.shape) if c0 is not None else ''} ({told})")
    y, h, c = _layers(mode, x, h0, c0, params, has_biases, num_layers, p, bidirectional, proj, lengths, key)
    if batched and batch_first:
        y = jnp.swapaxes(y, 0, 1)
    if not batched:
        y, h, c = y[:, 0], h[:, 0], None if c is None else c[:, 0]
    return y, h, c


@op(where=None, name="rnn")
def rnn(input: Array, h0: Array, params: Arrays, nonlinearity: str, has_biases: bool, num_layers: int, p: float, training: bool,
        bidirectional: bool, batch_first: bool, lengths: Array | None = None, *, key: Key | None):
    """(output, h_n) of an Elman RNN: input (T, N, in), (N, T, in) or (T, in).

    `params`: for each layer and direction w_ih, w_hh (and b_ih, b_hh); nonlinearity "tanh" or "relu"; p the dropout between
    layers; `lengths` (N,): steps beyond a sequence's length leave the state and give output 0 (torch.nn.RNN)."""
    key = key if training and p > 0 else None
    return _run("RNN_TANH" if nonlinearity == "tanh" else "RNN_RELU", input, h0, None, params, has_biases, num_layers, p,
                bidirectional, batch_first, False, lengths, key)[:2]


@op(where=None, name="lstm")
def lstm(input: Array, h0: Array, c0: Array, params: Arrays, has_biases: bool, num_layers: int, p: float, training: bool,
         bidirectional: bool, batch_first: bool, proj: bool = False, lengths: Array | None = None, *, key: Key | None):
    """(output, h_n, c_n) of an LSTM; `proj`: each layer's weights end with w_hr, which projects h (torch.nn.LSTM).

    Otherwise as `rnn`."""
    key = key if training and p > 0 else None
    return _run("LSTM", input, h0, c0, params, has_biases, num_layers, p, bidirectional, batch_first, proj, lengths, key)


@op(where=None, name="gru")
def gru(input: Array, h0: Array, params: Arrays, has_biases: bool, num_layers: int, p: float, training: bool,
        bidirectional: bool, batch_first: bool, lengths: Array | None = None, *, key: Key | None):
    """(output, h_n) of a GRU; otherwise as `rnn` (torch.nn.GRU)."""
    key = key if training and p > 0 else None
    return _run("GRU", input, h0, None, params, has_biases, num_layers, p, bidirectional, batch_first, False, lengths, key)[:2]


# ------------------------------------------------------------------------------------------- torch's functions


def _packed(name, data, batch_sizes, call):
    """Run on a packed sequence: unpack to (T, N, in) with lengths, run, pack again."""
    import lazy_tensor as lt
    sizes = [int(b) for b in batch_sizes.tolist()]
    steps, n = len(sizes), sizes[0]
    rows = np.full((steps, n), data.shape[0], np.int64)
    at, start = [], 0
    for t, b in enumerate(sizes):
        rows[t, :b] = np.arange(start, start + b)
        at += [t * n + i for i in range(b)]
        start += b
    lengths = lt.tensor([sum(b > i for b in sizes) for i in range(n)], device=data.device)
    zero = lt.zeros((1, data.shape[1]), dtype=data.dtype, device=data.device)
    padded = lt.cat([data, zero])[lt.from_numpy(rows).to(data.device)]
    out, *states = call(padded, lengths)
    return out.reshape(steps * n, out.shape[2])[lt.from_numpy(np.asarray(at, np.int64)).to(data.device)], *states


def _call(name, args, run):
    """torch's two signatures: (input, hx, params, has_biases, layers, dropout, train, bidirectional, batch_first), or packed:
    (data, batch_sizes, hx, params, has_biases, layers, dropout, train, bidirectional)."""
    if isinstance(args[2], (tuple, list)) and isinstance(args[3], bool):
        x, hx, params, biases, layers, p, train, both, first = args
        return run(x, hx, params, biases, layers, float(p), train, both, first, None)
    data, sizes, hx, params, biases, layers, p, train, both = args
    return _packed(name, data, sizes, lambda x, lengths: run(x, hx, params, biases, layers, float(p), train, both, False, lengths))


def _top(name, run, doc):
    def fn(*args):
        return _call(name, args, run)
    fn.__name__ = name
    fn.__doc__ = doc
    return composite(fn)


def _run_rnn(kind):
    def run(x, hx, params, biases, layers, p, train, both, first, lengths):
        return rnn(x, hx, params, kind, biases, layers, p, train, both, first, lengths)
    return run


def _run_gru(x, hx, params, biases, layers, p, train, both, first, lengths):
    return gru(x, hx, params, biases, layers, p, train, both, first, lengths)


def _run_lstm(x, hx, params, biases, layers, p, train, both, first, lengths):
    proj = len(params) == layers * (2 if both else 1) * (5 if biases else 3)
    return lstm(x, hx[0], hx[1], params, biases, layers, p, train, both, first, proj, lengths)


_top("rnn_tanh", _run_rnn("tanh"), "(output, h_n) of a tanh RNN on padded or packed input (torch.rnn_tanh).")
_top("rnn_relu", _run_rnn("relu"), "(output, h_n) of a relu RNN on padded or packed input (torch.rnn_relu).")
_top("gru", _run_gru, "(output, h_n) of a GRU on padded or packed input (torch.gru).")
_top("lstm", _run_lstm, "(output, h_n, c_n) of an LSTM on padded or packed input (torch.lstm).")


# ------------------------------------------------------------------------------------------- cells


def _cell(mode, input, h, c, w_ih, w_hh, b_ih, b_hh):
    name = mode.lower() + "_cell"
    gates = GATES[mode]
    told = f"{name}: given input {list(input.shape)}, hidden {list(h.shape)}"
    check(input.ndim in (1, 2) and input.ndim == h.ndim, f"{told}; input and hidden of 1 or 2 dimensions would fit")
    check(input.shape[-1] == w_ih.shape[1], f"{told}; input has inconsistent input_size: got {input.shape[-1]} expected {w_ih.shape[1]}")
    check(h.shape[-1] == w_hh.shape[1] and w_hh.shape[0] == gates * w_hh.shape[1],
          f"{told}; hidden has inconsistent hidden_size: got {h.shape[-1]}, expected {w_hh.shape[1]}")
    check(input.shape[:-1] == h.shape[:-1], f"{told}; Input batch size doesn't match hidden batch size")
    projected = _dot(input, w_ih)
    if b_ih is not None:
        projected = projected + b_ih
    if b_hh is not None and mode != "GRU":
        projected, b_hh = projected + b_hh, None
    return _step(mode, projected, h, c, w_hh, b_hh, None)


@op(out=False)
def rnn_tanh_cell(input: Array, hx: Array, w_ih: Array, w_hh: Array, b_ih: Array | None = None, b_hh: Array | None = None):
    """tanh(W_ih x + b_ih + W_hh h + b_hh): x (N, in), h (N, hidden) (torch.rnn_tanh_cell)."""
    return _cell("RNN_TANH", input, hx, None, w_ih, w_hh, b_ih, b_hh)[0]


@op(out=False)
def rnn_relu_cell(input: Array, hx: Array, w_ih: Array, w_hh: Array, b_ih: Array | None = None, b_hh: Array | None = None):
    """relu(W_ih x + b_ih + W_hh h + b_hh): x (N, in), h (N, hidden) (torch.rnn_relu_cell)."""
    return _cell("RNN_RELU", input, hx, None, w_ih, w_hh, b_ih, b_hh)[0]


@op(out=False)
def gru_cell(input: Array, hx: Array, w_ih: Array, w_hh: Array, b_ih: Array | None = None, b_hh: Array | None = None):
    """One GRU step: x (N, in), h (N, hidden) -> h' (torch.gru_cell)."""
    return _cell("GRU", input, hx, None, w_ih, w_hh, b_ih, b_hh)[0]


@op(where=None, name="lstm_cell")
def _lstm_cell(input: Array, h: Array, c: Array, w_ih: Array, w_hh: Array, b_ih: Array | None, b_hh: Array | None):
    return _cell("LSTM", input, h, c, w_ih, w_hh, b_ih, b_hh)


@composite
def lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One LSTM step: x (N, in), hx = (h, c) -> (h', c') (torch.lstm_cell)."""
    return _lstm_cell(input, hx[0], hx[1], w_ih, w_hh, b_ih, b_hh)
