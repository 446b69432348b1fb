"""A GRU with per-sample gradients: its steps in a loop, its weights' gradients in one product each.

Autograd would sum the gradient of a weight at every step of time. Here the loop back through time finds
only what depends on it, the gates' gradients; a weight's gradient is then one sum over all steps,
like a linear layer's over its rows.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sfumato.learn.engine._contributions import Explicit, matrix_gradient


class PerSampleGRU(Function):
    """One layer in one direction: ``x`` (T, B, in) and ``h0`` (B, H) to all states (T, B, H).

    r, z = sigmoid(gi + gh), n = tanh(gi + r gh), h' = n + z (h - n), with gi = W_ih x + b_ih and
    gh = W_hh h + b_hh (torch.nn.GRU).
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        h0: Tensor,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor | None,
        b_hh: Tensor | None,
        recorder: Any,
    ) -> Tensor:
        size, steps = h0.shape[1], len(x)
        inner = F.linear(x, w_ih, b_ih)
        # states[t] is the state before step t; gates are r and z; fresh is n; reset is what r multiplies
        states, gates = x.new_empty(steps + 1, *h0.shape), inner[..., : 2 * size].contiguous()
        fresh, reset = inner[..., 2 * size :].contiguous(), torch.empty_like(states[1:])
        states[0] = h0
        for t in range(steps):
            outer = F.linear(states[t], w_hh, b_hh)
            torch.sigmoid_(gates[t].add_(outer[:, : 2 * size]))
            reset[t] = outer[:, 2 * size :]
            torch.tanh_(fresh[t].addcmul_(gates[t, :, :size], reset[t]))
            torch.lerp(fresh[t], states[t], gates[t, :, size:], out=states[t + 1])
        ctx.save_for_backward(x, states, gates, fresh, reset)
        ctx.weights, ctx.recorder = (w_ih, w_hh, b_ih, b_hh), recorder
        return states[1:].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        (x, states, gates, fresh, reset), recorder = ctx.saved_tensors, ctx.recorder
        w_ih, w_hh, b_ih, b_hh = ctx.weights
        steps, (records, size) = len(x), states.shape[1:]
        r, z = gates[..., :size], gates[..., size:]
        to_fresh = (1 - z) * (1 - fresh.square())
        through = torch.cat(
            [
                to_fresh * reset * r * (1 - r),
                (states[:-1] - fresh) * z * (1 - z),
                to_fresh * r,
            ],
            2,
        ).view(steps, records, 3, size)
        outer, arrived = torch.empty_like(through), torch.empty_like(fresh)
        state = torch.zeros_like(states[0])
        for t in reversed(range(steps)):
            torch.add(grad[t], state, out=arrived[t])
            torch.mul(through[t], arrived[t][:, None], out=outer[t])
            state = torch.addmm(arrived[t] * z[t], outer[t].view(records, -1), w_hh)
        outer = outer.view(steps, records, -1)
        inner = torch.cat([outer[..., : 2 * size], arrived * to_fresh], 2)
        for weight, bias, a, g in ((w_ih, b_ih, x, inner), (w_hh, b_hh, states[:-1], outer)):
            rows = recorder.rows(g.transpose(0, 1))
            if recorder.keeps(bias):
                recorder.add(bias, Explicit(rows.sum(1)))
            if recorder.keeps(weight):
                each = recorder.rows(a.detach().transpose(0, 1))
                recorder.add(weight, matrix_gradient(each, rows))
        gx = inner @ w_ih if ctx.needs_input_grad[0] else None
        return gx, state if ctx.needs_input_grad[1] else None, None, None, None, None, None


def gru_layers(
    x: Tensor,
    hx: Tensor,
    weights: list[tuple[Tensor, ...]],
    directions: int,
    dropout: float,
    recorder: Any,
) -> tuple[Tensor, Tensor]:
    """All layers of ``torch.gru``, time first: outputs of the last, and every last state."""
    last, layers = [], len(weights) // directions
    for layer in range(layers):
        found = []
        for direction in range(directions):
            place = layer * directions + direction
            given = weights[place] if len(weights[place]) == 4 else (*weights[place], None, None)
            seen = x.flip(0) if direction else x
            states = PerSampleGRU.apply(seen, hx[place], *given, recorder)  # type: ignore[no-untyped-call]
            last.append(states[-1])
            found.append(states.flip(0) if direction else states)
        x = torch.cat(found, 2) if directions > 1 else found[0]
        if dropout and layer < layers - 1:
            x = F.dropout(x, dropout)
    return x, torch.stack(last)
