"""Increments of unit quaternions over a step, and the step of mechanisms that turn freely.

The unknown of a ball is t = n tan(θ/4), the Gibbs vector of half the increment; s = |t|², t̂ its cross-product matrix:

    h = (1, t)/√(1+s),  inc = h² = (1−s, 2t)/(1+s);   q_m = q_k h,  q_{k+1} = q_k inc,  ω_m = φ(s) t/dt
    M(t) = m0 I + m1 t̂ + m2 t tᵀ,  m0 = φ(1−s)/4,  m1 = φ/2,  m2 = (φ + φ'(1+s))/2
    G:  p + dt/2 (I + t̂)(L_θ + F) − M L_ω − D_θ h(q_k)ᵀ lam = 0
    p⁺ = dt/2 (I − t̂)(L_θ + F) + Mᵀ L_ω  =  incᵀ (p − D_θ hᵀ lam) + dt hᵀ (L_θ + F)

q_m is the geodesic midpoint, so the step is symmetric for every φ. L_θ, F and D_θ h are by turns about the child's
axes; M is (dτ⁻¹)* of Kobilarov, Desbrun, Marsden & Sukhatme (2007).
"""

from stepmap.steps.rotations.equations import equations_with_balls
from stepmap.steps.rotations.increments import Increments
from stepmap.steps.rotations.maps import MAPS, RotationMap, vectors

__all__ = ["MAPS", "Increments", "RotationMap", "equations_with_balls", "vectors"]
