"""Evaluates recordings: ``Tape(directory)`` opens what ``derivgrind record`` has written."""

import os

import numpy as np

from derivgrind import _native

TapeError = _native.TapeError


class Tape:
    """A recording.

    Sweeps take one vector or a matrix with a vector in each row, and do not hold Python's lock.
    """

    def __init__(self, directory):
        self._native = _native.Tape(os.fspath(directory))

    @property
    def n_inputs(self):
        """Number of inputs."""
        return self._native.n_inputs

    @property
    def n_outputs(self):
        """Number of outputs."""
        return self._native.n_outputs

    @property
    def n_records(self):
        """Number of operations, inputs and outputs."""
        return self._native.n_records

    @property
    def input_indices(self):
        """Indices of the inputs, in the order of declaration."""
        return self._native.input_indices()

    @property
    def output_indices(self):
        """Indices of the outputs, in the order of declaration."""
        return self._native.output_indices()

    def reverse(self, output_bars):
        """From bar values of the outputs to those of the inputs: ``wᵀJ`` for each vector ``w``."""
        return self._sweep(self._native.reverse, output_bars)

    def forward(self, input_dots):
        """From dot values of the inputs to those of the outputs: ``J v`` for each vector ``v``."""
        return self._sweep(self._native.forward, input_dots)

    def jacobian(self):
        """The matrix of the derivatives of all outputs (rows) with respect to all inputs (columns)."""
        if self.n_inputs < self.n_outputs:
            return np.ascontiguousarray(self.forward(np.eye(self.n_inputs)).T)
        return self.reverse(np.eye(self.n_outputs))

    @staticmethod
    def _sweep(sweep, seeds):
        seeds = np.ascontiguousarray(seeds, dtype=np.float64)
        if seeds.ndim not in (1, 2):
            raise ValueError(f"expected a vector, or a matrix with a vector in each row, not an array of shape {seeds.shape}")
        results = sweep(seeds.reshape(-1, seeds.shape[-1]) if seeds.ndim == 1 else seeds)
        return results[0] if seeds.ndim == 1 else results


def load(directory):
    """Opens the recording in a directory."""
    return Tape(directory)


__all__ = ["Tape", "TapeError", "load"]
