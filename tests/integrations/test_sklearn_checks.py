"""All of scikit-learn's own checks of an estimator."""

from sklearn.utils.estimator_checks import parametrize_with_checks

import posterity as pt

# Rates at which the checks' small tasks are learnt in a second.
SHORT = {"model": (16,), "epochs": 30, "lr": 0.03, "prediction_samples": 8}
ESTIMATORS = [pt.BayesianClassifier(**SHORT), pt.BayesianRegressor(**SHORT)]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_check(estimator, check):
    check(estimator)
