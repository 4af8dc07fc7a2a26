"""All of scikit-learn's own checks of an estimator."""

from sklearn.utils.estimator_checks import parametrize_with_checks

import posterity as pt

# Rates at which the checks' small tasks are learnt in a second.
SHORT = {"model": (16,), "epochs": 30, "lr": 0.03, "prediction_samples": 8}
ESTIMATORS = [pt.BayesianClassifier(**SHORT), pt.BayesianRegressor(**SHORT)]

# Equal to seven digits: the training is in single precision, and the columns' own mean and sd are those of the rows,
# whatever they weigh. scikit-learn allows the same to its own that are trained in random batches (SGDClassifier,
# Perceptron). That a weight counts as so many rows in the training itself is in tests/training/test_fit_inputs.py.
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "single precision; columns are standardised without weights"
}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda _: EXPECTED)
def test_scikit_learn_check(estimator, check):
    check(estimator)
