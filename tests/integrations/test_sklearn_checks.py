"""All of scikit-learn's own checks of an estimator."""

from sklearn.utils.estimator_checks import parametrize_with_checks

import posterity as pt

# Rates at which the checks' small tasks are learnt in a second.
SHORT = {"model": (16,), "epochs": 30, "lr": 0.03, "prediction_samples": 8}
ESTIMATORS = [pt.BayesianClassifier(**SHORT), pt.BayesianRegressor(**SHORT)]

# What scikit-learn allows its own estimators that are trained in random batches (SGDClassifier, Perceptron, ...): rows
# that are repeated come into other batches, and are summed in another order, than rows that weigh more. That a weight
# counts as so many rows up to that noise, and a weight of 0 exactly, is in test_sklearn.py.
EXPECTED = {"check_sample_weight_equivalence_on_dense_data": "repeated rows come into other batches than weighted ones"}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda _: EXPECTED)
def test_scikit_learn_check(estimator, check):
    check(estimator)
