import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from posterity.core.errors import UsageError
from posterity.metrics import aupr, auroc, fpr_at_tpr

METRICS = (auroc, aupr, fpr_at_tpr)
# Few distinct values: many ties, within and between the two sets.
scores = st.lists(st.integers(0, 6), min_size=1, max_size=40).map(lambda v: torch.tensor(v, dtype=torch.float64))


def labelled(inside, outside):
    target = torch.cat([torch.zeros_like(inside), torch.ones_like(outside)])
    return target.numpy(), torch.cat([inside, outside]).numpy()


def test_by_hand():
    inside, outside = torch.tensor([0.1, 0.2, 0.4]), torch.tensor([0.3, 0.4])
    # Pairs: 0.3 beats two of three; 0.4 beats two and ties with one.
    assert auroc(inside, outside) == pytest.approx((2 + 2.5) / 6)
    # At 0.4: 1 of 2 found are out; at 0.3: 2 of 3.
    assert aupr(inside, outside) == pytest.approx((1 / 2 + 2 / 3) / 2)
    # Both must be found, at 0.3, which flags 0.4 inside; half of them at 0.4, which flags it too.
    assert fpr_at_tpr(inside, outside) == pytest.approx(1 / 3)
    assert fpr_at_tpr(torch.tensor([0.1, 0.35]), outside, tpr=0.5) == 0


def test_separated_and_constant_scores():
    low, high = torch.tensor([0.0, 1.0, 1.0]), torch.tensor([2.0, 3.0])
    assert [metric(low, high) for metric in METRICS] == [1, 1, 0]
    assert auroc(high, low) == 0
    assert fpr_at_tpr(high, low) == 1
    assert [metric(torch.ones(3), torch.ones(2)) for metric in METRICS] == [0.5, 0.4, 1]


def test_infinite_scores_are_ordered():
    assert auroc(torch.tensor([0.0, -torch.inf]), torch.tensor([torch.inf])) == 1


@pytest.mark.parametrize("needed", range(1, 101))
def test_the_share_found_is_not_lost_to_rounding(needed):
    # 0.07 * 100 = 7.000000000000001 must ask for 7 of 100, not for 8.
    outside = torch.arange(100, 0, -1)
    inside = torch.arange(1, 101) - 0.5
    assert fpr_at_tpr(inside, outside, tpr=needed / 100) == pytest.approx((needed - 1) / 100)


@settings(max_examples=80, deadline=None)
@given(inside=scores, outside=scores)
def test_agree_with_scikit_learn_with_ties(inside, outside):
    target, score = labelled(inside, outside)
    assert auroc(inside, outside) == pytest.approx(roc_auc_score(target, score))
    assert aupr(inside, outside) == pytest.approx(average_precision_score(target, score))
    fpr, tpr, _ = roc_curve(target, score, drop_intermediate=False)
    assert fpr_at_tpr(inside, outside, tpr=0.8) == pytest.approx(fpr[tpr >= 0.8 - 1e-9].min())


@settings(max_examples=60, deadline=None)
@given(inside=scores, outside=scores, seed=st.integers(0, 1000))
def test_laws(inside, outside, seed):
    assert auroc(inside, outside) + auroc(outside, inside) == pytest.approx(1, abs=1e-12)
    generator = torch.Generator().manual_seed(seed)
    shuffled = [s[torch.randperm(len(s), generator=generator)] for s in (inside, outside)]
    for metric in METRICS:
        value = metric(inside, outside)
        assert 0 <= value <= 1
        assert value == pytest.approx(metric(*shuffled))
        # Only the order counts.
        assert value == metric(inside.exp(), outside.exp())
    assert auroc(inside, inside) == 0.5


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("inside", "outside", "message"),
    [
        (torch.tensor([torch.nan]), torch.ones(1), r"in_scores\[0\] is nan"),
        (torch.ones(1), torch.tensor([0.0, torch.nan]), r"out_scores\[1\] is nan"),
        (torch.ones(0), torch.ones(1), r"in_scores has shape \(0,\)"),
        (torch.ones(1), torch.ones(2, 1), r"out_scores has shape \(2, 1\), expected \(n,\)"),
    ],
)
def test_wrong_scores_are_refused(metric, inside, outside, message):
    with pytest.raises(UsageError, match=message):
        metric(inside, outside)


@pytest.mark.parametrize("tpr", [0.0, 1.01, 95])
def test_wrong_tpr_is_refused(tpr):
    with pytest.raises(UsageError, match=f"tpr is {tpr}"):
        fpr_at_tpr(torch.ones(1), torch.ones(1), tpr=tpr)
