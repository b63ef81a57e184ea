"""Arithmetic on inputs and coordinates: ``lift * sm.sin(pitch)`` is a CasADi expression of their symbols."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import casadi as ca

from stepmap.errors import ModelError


class Symbolic:
    """A quantity with a symbol, which stands for it in expressions. Comparisons remain those of the object itself."""

    symbol: ca.SX

    __array_ufunc__ = None  # numpy's scalars leave 2.0 * quantity to the methods below

    def __SX__(self) -> ca.SX:
        """What CasADi's functions take it for."""
        return self.symbol

    def __neg__(self) -> ca.SX:
        return -self.symbol

    def __pos__(self) -> ca.SX:
        return self.symbol

    def __abs__(self) -> ca.SX:
        return ca.fabs(self.symbol)

    def __add__(self, other: Any) -> ca.SX:
        return self.symbol + _operand(other)

    def __radd__(self, other: Any) -> ca.SX:
        return _operand(other) + self.symbol

    def __sub__(self, other: Any) -> ca.SX:
        return self.symbol - _operand(other)

    def __rsub__(self, other: Any) -> ca.SX:
        return _operand(other) - self.symbol

    def __mul__(self, other: Any) -> ca.SX:
        return self.symbol * _operand(other)

    def __rmul__(self, other: Any) -> ca.SX:
        return _operand(other) * self.symbol

    def __truediv__(self, other: Any) -> ca.SX:
        return self.symbol / _operand(other)

    def __rtruediv__(self, other: Any) -> ca.SX:
        return _operand(other) / self.symbol

    def __pow__(self, other: Any) -> ca.SX:
        return self.symbol ** _operand(other)

    def __rpow__(self, other: Any) -> ca.SX:
        return _operand(other) ** self.symbol


def _operand(value: Any) -> ca.SX:
    """A number, a quantity or an expression as SX; raises ModelError for anything else, such as a list."""
    if isinstance(value, Symbolic):
        return value.symbol
    if isinstance(value, ca.SX):
        return value
    if isinstance(value, Real):
        return ca.SX(float(value))
    raise ModelError(f"an expression holds numbers, inputs, coordinates and parameters, not {value!r}")


def _unary(function: Callable[[ca.SX], ca.SX], value: Any) -> ca.SX:
    return function(_operand(value))


def sin(value: Any) -> ca.SX:
    """The sine of an expression [rad]."""
    return _unary(ca.sin, value)


def cos(value: Any) -> ca.SX:
    """The cosine of an expression [rad]."""
    return _unary(ca.cos, value)


def tan(value: Any) -> ca.SX:
    """The tangent of an expression [rad]."""
    return _unary(ca.tan, value)


def asin(value: Any) -> ca.SX:
    """The angle [rad] whose sine an expression is."""
    return _unary(ca.asin, value)


def acos(value: Any) -> ca.SX:
    """The angle [rad] whose cosine an expression is."""
    return _unary(ca.acos, value)


def atan(value: Any) -> ca.SX:
    """The angle [rad] whose tangent an expression is."""
    return _unary(ca.atan, value)


def atan2(y: Any, x: Any) -> ca.SX:
    """The angle [rad] of the point (x, y)."""
    return ca.atan2(_operand(y), _operand(x))


def sqrt(value: Any) -> ca.SX:
    """The square root of an expression; its slope has no value where the expression is 0."""
    return _unary(ca.sqrt, value)


def exp(value: Any) -> ca.SX:
    """e to the power of an expression."""
    return _unary(ca.exp, value)


def log(value: Any) -> ca.SX:
    """The natural logarithm of an expression."""
    return _unary(ca.log, value)


def tanh(value: Any) -> ca.SX:
    """The hyperbolic tangent of an expression: a smooth step from −1 to 1, as of friction."""
    return _unary(ca.tanh, value)
