VERSION: int

def normal(state: int, out: int, count: int, threads: int, /) -> None: ...
def draw(
    mean: int,
    shift: int,
    rho: int,
    noise: int,
    sd: int,
    weights: int,
    bound: float,
    count: int,
    threads: int,
    /,
) -> tuple[float, float, float, float]: ...
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
def polar(
    matrices: int, found: int, count: int, rows: int, columns: int, a: float, b: float, c: float, iterations: int, /
) -> None: ...
