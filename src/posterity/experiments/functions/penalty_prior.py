"""The prior that a penalty stands for, its factor, and whether it is a KL        (SPEC 6)."""

from __future__ import annotations

from posterity.experiments.penalty import study_penalty


def penalty_prior(
    *, penalty: str, inputs: int = 400, group_size: int = 1, family: str = "delta", seed: int = 0
) -> dict[str, float]:
    """The factor of a penalty in a layer, the sd of its prior, and whether it is a KL of the family (1 or 0).

    The factor is such that a weight's prior has the variance 1 / inputs. Nothing is drawn: the seed is ignored.
    """
    found = study_penalty(penalty, inputs, group_size=group_size, family=family)
    verdict = found.completed or found.alone
    return {
        "factor": found.factor,
        "variance": found.sd**2,
        "is_kl": float(found.alone.is_kl),
        "completed_is_kl": float(verdict.is_kl),
        "dependence": found.alone.dependence,
        "mass": found.alone.mass,
    }
