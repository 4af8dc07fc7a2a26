"""Passes of a network under a rule by name."""

from posterity.estimators import LINEAR_RULES, random_outputs


def outputs(net, rule, x, samples=1):
    """(S, ...) from the posterior's own means and standard deviations."""
    noise = net.noise(samples) if LINEAR_RULES[rule].perturbs else None
    means, sds = (vector.split(net.layout.sizes) for vector in (net.posterior.mean, net.posterior.sd))
    return random_outputs(net, LINEAR_RULES[rule], x, means=means, sds=sds, noise=noise, samples=samples)
