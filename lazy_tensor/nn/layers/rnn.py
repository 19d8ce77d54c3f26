"""Recurrent layers and cells (torch.nn.modules.rnn), over the ops rnn_tanh, rnn_relu, lstm, gru and their cells."""
from __future__ import annotations

import math
import numbers
import warnings

import lazy_tensor as lt
from lazy_tensor.nn import init
from lazy_tensor.nn.layers._args import empty_parameter
from lazy_tensor.nn.module import Module
from lazy_tensor.nn.utils.rnn import PackedSequence

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


class RNNBase(Module):
    """Weights, checks and packed sequences of the recurrent layers."""

    def __init__(self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False,
                 proj_size=0, device=None, dtype=None):
        super().__init__()
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        if not isinstance(dropout, numbers.Number) or not 0 <= dropout <= 1 or isinstance(dropout, bool):
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element being zeroed")
        if dropout > 0 and num_layers == 1:
            warnings.warn("dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
                          f"greater than 1, but got dropout={dropout} and num_layers={num_layers}", stacklevel=3)
        if not isinstance(hidden_size, int):
            raise TypeError(f"hidden_size should be of type int, got: {type(hidden_size).__name__}")
        if hidden_size <= 0:
            raise ValueError("hidden_size must be greater than zero")
        if num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        gates, real = _GATES[mode] * hidden_size, proj_size or hidden_size
        directions = 2 if bidirectional else 1
        self._flat_weights_names, self._all_weights = [], []
        for layer in range(num_layers):
            for d in range(directions):
                size = input_size if layer == 0 else real * directions
                shapes = [("weight_ih", (gates, size)), ("weight_hh", (gates, real))]
                if bias:
                    shapes += [("bias_ih", (gates,)), ("bias_hh", (gates,))]
                if proj_size:
                    shapes.append(("weight_hr", (proj_size, hidden_size)))
                names = [f"{n}_l{layer}{'_reverse' * d}" for n, _ in shapes]
                for name, (_, shape) in zip(names, shapes, strict=True):
                    setattr(self, name, empty_parameter(shape, device, dtype))
                self._flat_weights_names.extend(names)
                self._all_weights.append(names)
        self.reset_parameters()

    @property
    def _flat_weights(self):
        return [getattr(self, n) for n in self._flat_weights_names]

    @property
    def all_weights(self):
        """The weights, a list for each layer and direction."""
        return [[getattr(self, n) for n in names] for names in self._all_weights]

    def flatten_parameters(self):
        """Nothing to do: XLA lays the weights out."""

    def reset_parameters(self):
        """U(-1/sqrt(hidden), 1/sqrt(hidden)) for all."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for w in self.parameters():
            init.uniform_(w, -bound, bound)

    def check_input(self, input, batch_sizes):
        """RuntimeError or ValueError for an input that does not fit."""
        if input.dtype != self._flat_weights[0].dtype:
            raise ValueError(f"RNN input dtype ({input.dtype}) does not match weight dtype ({self._flat_weights[0].dtype}). Convert "
                             "input: input.to(weight.dtype), or convert model: model.to(input.dtype)")
        want = 2 if batch_sizes is not None else 3
        if input.dim() != want:
            raise RuntimeError(f"input must have {want} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}")

    def _check_hidden(self, h, batch, width, msg="Expected hidden size {}, got {}"):
        want = (self.num_layers * (2 if self.bidirectional else 1), batch, width)
        if tuple(h.shape) != want:
            raise RuntimeError(msg.format(want, list(h.shape)))

    def _state(self, input, hx, batch):
        real, n = self.proj_size or self.hidden_size, self.num_layers * (2 if self.bidirectional else 1)
        if hx is None:
            h = lt.zeros(n, batch, real, dtype=input.dtype, device=input.device)
            if self.mode != "LSTM":
                return h
            return h, lt.zeros(n, batch, self.hidden_size, dtype=input.dtype, device=input.device)
        if self.mode == "LSTM":
            self._check_hidden(hx[0], batch, real, "Expected hidden[0] size {}, got {}")
            self._check_hidden(hx[1], batch, self.hidden_size, "Expected hidden[1] size {}, got {}")
        else:
            self._check_hidden(hx, batch, real)
        return hx

    def _map(self, hx, fn):
        return None if hx is None else tuple(map(fn, hx)) if self.mode == "LSTM" else fn(hx)

    def forward(self, input, hx=None):
        """(output, final state): input (L, N, in), (N, L, in) with batch_first, (L, in), or a PackedSequence."""
        name = type(self).__name__
        packed = isinstance(input, PackedSequence)
        batched = True
        if packed:
            x, sizes, order, back = input
            batch = int(sizes[0])
            if order is not None:
                hx = self._map(hx, lambda h: h.index_select(1, order))
        else:
            x, sizes, order, back = input, None, None, None
            if x.dim() not in (2, 3):
                raise ValueError(f"{name}: Expected input to be 2D or 3D, got {x.dim()}D tensor instead" if name != "LSTM" else
                                 f"LSTM: Expected input to be 2D or 3D, got {x.dim()}D instead")
            batched = x.dim() == 3
            if hx is not None:
                for h in hx if self.mode == "LSTM" else (hx,):
                    if h.dim() != (3 if batched else 2):
                        raise RuntimeError(f"For {'batched 3' if batched else 'unbatched 2'}-D input, hx should also be "
                                           f"{3 if batched else 2}-D but got {h.dim()}-D tensor")
            if not batched:
                x = x.unsqueeze(0 if self.batch_first else 1)
                hx = self._map(hx, lambda h: h.unsqueeze(1))
            batch = x.size(0 if self.batch_first else 1)
        self.check_input(x, sizes)
        hx = self._state(x, hx, batch)
        op = getattr(lt, self.mode.lower())
        state = list(hx) if self.mode == "LSTM" else hx
        options = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        if packed:
            out = op(x, sizes, state, self._flat_weights, *options)
        else:
            out = op(x, state, self._flat_weights, *options, self.batch_first)
        y, hidden = out[0], (tuple(out[1:]) if self.mode == "LSTM" else out[1])
        if packed:
            y = PackedSequence(y, sizes, order, back)
            if back is not None:
                hidden = self._map(hidden, lambda h: h.index_select(1, back))
        elif not batched:
            y = y.squeeze(0 if self.batch_first else 1)
            hidden = self._map(hidden, lambda h: h.squeeze(1))
        return y, hidden

    def extra_repr(self):
        """The arguments that are not the defaults."""
        s = f"{self.input_size}, {self.hidden_size}"
        for name, default in (("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0),
                              ("bidirectional", False)):
            if getattr(self, name) != default:
                s += f", {name}={getattr(self, name)}"
        return s


class RNN(RNNBase):
    """h' = tanh (or relu) of W_ih x + b_ih + W_hh h + b_hh (torch.nn.RNN)."""

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, device=None, dtype=None):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        self.__dict__["nonlinearity"] = nonlinearity
        super().__init__("RNN_" + nonlinearity.upper(), input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
                         0, device, dtype)


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter and Schmidhuber 1997; torch.nn.LSTM)."""

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False,
                 proj_size=0, device=None, dtype=None):
        super().__init__("LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device,
                         dtype)


class GRU(RNNBase):
    """Gated recurrent unit (Cho et al. 2014; torch.nn.GRU)."""

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False,
                 device=None, dtype=None):
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)


class RNNCellBase(Module):
    """Weights of the cells."""

    def __init__(self, input_size, hidden_size, bias, num_chunks, device=None, dtype=None):
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        self.weight_ih = empty_parameter((rows, input_size), device, dtype)
        self.weight_hh = empty_parameter((rows, hidden_size), device, dtype)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, empty_parameter((rows,), device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """U(-1/sqrt(hidden), 1/sqrt(hidden)) for all."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for w in self.parameters():
            init.uniform_(w, -bound, bound)

    def _step(self, op, input, hx, states):
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        batched = input.dim() == 2
        x = input if batched else input.unsqueeze(0)
        if hx is None:
            zeros = lt.zeros(x.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
            hx = (zeros,) * states
        else:
            hx = hx if states == 2 else (hx,)
            for i, h in enumerate(hx):
                if h.dim() not in (1, 2):
                    what = f"hx[{i}]" if states == 2 else "hidden"
                    raise ValueError(f"{name}: Expected {what} to be 1D or 2D, got {h.dim()}D instead")
            hx = hx if batched else tuple(h.unsqueeze(0) for h in hx)
        out = op(x, tuple(hx) if states == 2 else hx[0], self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        if batched:
            return out
        return tuple(o.squeeze(0) for o in out) if states == 2 else out.squeeze(0)

    def extra_repr(self):
        """The sizes."""
        s = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            s += f", bias={self.bias}"
        if self.__dict__.get("nonlinearity", "tanh") != "tanh":
            s += f", nonlinearity={self.nonlinearity}"
        return s


class RNNCell(RNNCellBase):
    """One step of an RNN (torch.nn.RNNCell)."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        """The next state of input (N, in) or (in,)."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(lt.rnn_tanh_cell if self.nonlinearity == "tanh" else lt.rnn_relu_cell, input, hx, 1)


class LSTMCell(RNNCellBase):
    """One step of an LSTM (torch.nn.LSTMCell)."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input, hx=None):
        """(h', c')."""
        return self._step(lt.lstm_cell, input, hx, 2)


class GRUCell(RNNCellBase):
    """One step of a GRU (torch.nn.GRUCell)."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input, hx=None):
        """h'."""
        return self._step(lt.gru_cell, input, hx, 1)
