"""What one stage computes: forward, backward whole or in halves, and the optimizer's step.

The loss of an iteration is the mean over the micro-batches of all replicas. Where activations are
recomputed, a forward keeps only its input and the backward runs it once more.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import model
from .model import Shape
from .schedule import BACKWARD, FORWARD, INPUT_GRADIENT, Action
from .settings import NONE, Place


class Stage:
    """A stage's module, the activations in flight and the optimizer."""

    def __init__(self, place: Place, shape: Shape, device: str = "cpu") -> None:
        self._place = place
        self._shape = shape
        self._device = device
        self._recompute = place.recompute != NONE
        self._module = model.build(shape, place.stage, place.stages).to(device)
        self._parameters = list(self._module.parameters())
        self._optimizer = torch.optim.SGD(self._parameters, lr=0.1, momentum=0.9)
        self._inputs: dict[int, Tensor] = {}
        self._outputs: dict[int, Tensor] = {}
        self._gradients: dict[int, Tensor | None] = {}  # kept from I to W
        self._loss = torch.zeros(1, device=device)

    def compute(self, action: Action, sample: int, received: Tensor | None) -> Tensor | None:
        """Run one action; ``sample`` is the number of the micro-batch's first sample.

        Takes the activation or gradient that came from a neighbour, returns the one that goes to
        the other neighbour.
        """
        if action.kind == FORWARD:
            return self._forward(action.micro_batch, sample, received)
        if action.kind == BACKWARD:
            return self._backward(action.micro_batch, sample, received)
        if action.kind == INPUT_GRADIENT:
            return self._input_gradient(action.micro_batch, sample, received)
        self._weight_gradient(action.micro_batch)
        return None

    def recompute(self, micro_batch: int, sample: int) -> None:
        """Compute the activations of a micro-batch again, before its gradient has come."""
        self._outputs[micro_batch] = self._run(self._inputs[micro_batch], sample)

    def gradients(self) -> Tensor:
        """Return all gradients of the iteration and the loss as one vector, to be all-reduced."""
        parts = [p.grad if p.grad is not None else torch.zeros_like(p) for p in self._parameters]
        return torch.cat([*(part.reshape(-1) for part in parts), self._loss])

    def step(self, total: Tensor) -> float:
        """Apply the sum of the replicas' vectors; return the mean loss, 0 but in the last stage."""
        mean = total / self._place.data
        begin = 0
        for parameter in self._parameters:
            end = begin + parameter.numel()
            parameter.grad = mean[begin:end].view_as(parameter)
            begin = end
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self._loss.zero_()
        return float(mean[-1])

    def synchronize(self) -> None:
        """Wait until the device has done what was asked of it."""
        if self._device != "cpu":
            torch.cuda.synchronize()

    def state(self) -> dict[str, Any]:
        """Return everything a restart needs."""
        return {"module": self._module.state_dict(), "optimizer": self._optimizer.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a state."""
        self._module.load_state_dict(state["module"])
        self._optimizer.load_state_dict(state["optimizer"])

    def _forward(self, micro_batch: int, sample: int, received: Tensor | None) -> Tensor | None:
        if received is None:
            tokens, _ = model.samples(sample, self._place.micro_batch, self._shape)
            kept = tokens.to(self._device)
        else:
            kept = received.requires_grad_()
        self._inputs[micro_batch] = kept
        with torch.set_grad_enabled(not self._recompute):
            output = self._run(kept, sample)
        if not self._recompute:
            self._outputs[micro_batch] = output
        if not self._place.is_last:
            return output.detach()
        self._loss += output.detach()
        return None

    def _backward(self, micro_batch: int, sample: int, gradient: Tensor | None) -> Tensor | None:
        output = self._output(micro_batch, sample)
        torch.autograd.backward(output, gradient)
        return self._inputs.pop(micro_batch).grad

    def _input_gradient(self, micro_batch: int, sample: int, gradient: Tensor | None
    ) -> Tensor | None:  # fmt: skip
        output = self._output(micro_batch, sample)
        self._outputs[micro_batch], self._gradients[micro_batch] = output, gradient
        kept = self._inputs.pop(micro_batch)
        if self._place.is_first:  # tokens have no gradient
            return None
        return torch.autograd.grad(output, [kept], gradient, retain_graph=True)[0]

    def _weight_gradient(self, micro_batch: int) -> None:
        output, gradient = self._outputs.pop(micro_batch), self._gradients.pop(micro_batch)
        torch.autograd.backward(output, gradient, inputs=self._parameters)

    def _output(self, micro_batch: int, sample: int) -> Tensor:
        if micro_batch in self._outputs:
            return self._outputs.pop(micro_batch)
        return self._run(self._inputs[micro_batch], sample)

    def _run(self, x: Tensor, sample: int) -> Tensor:
        """Return the stage's output; in the last stage the micro-batch's share of the loss."""
        output = self._module(x)
        if not self._place.is_last:
            return output
        _, targets = model.samples(sample, self._place.micro_batch, self._shape)
        return model.loss(output, targets.to(self._device)) / self._place.micro_batches
