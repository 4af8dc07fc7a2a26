def normal(state: int, out: int, count: int, threads: int, /) -> None: ...
def spread(rho: int, sd: int, count: int, bound: float, threads: int, /) -> tuple[float, int]: ...
def gradient(
    grad: int,
    noise: int,
    shift: int,
    sd: int,
    rho: int,
    precision: int,
    by_weight: bool,
    factor: float,
    to_mean: int,
    count: int,
    threads: int,
    /,
) -> None: ...
def ivon(
    mean: int,
    momentum: int,
    curvature: int,
    grad: int,
    grad_rho: int,
    rho: int,
    lr: float,
    ess: float,
    delta: float,
    momentum_share: float,
    curvature_share: float,
    correction: float,
    count: int,
    threads: int,
    /,
) -> None: ...
