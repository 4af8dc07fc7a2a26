"""The flags of a run and the defaults of commands. Made by docs/tables.py from the schema of a run: do not edit."""

# fmt: off
# ruff: noqa: E501

CHECKPOINT_SECONDS = 30.0
CLIP = 0.05
DRAWS = 100
PENALTIES = ("l2", "l1", "group_lasso_rows", "group_lasso_columns")
RANGE_TEST = {"group": "all", "low": 1e-06, "high": 1.0, "steps": 100}
SAMPLES = 32
UCI = ("boston", "concrete", "energy", "power", "protein", "wine")

FLAGS: tuple[tuple[str, type, str, str], ...] = (
    ("dataset", str, "Data", "data set's name, or the path of a .npz or .csv file; default digits"),
    ("split", int, "Data", "number of the standard split (UCI sets); default 0"),
    ("target", str, "Data", "target column of a .csv file; the last one by default"),
    ("task", str, "Data", "what a file's targets are, where they do not show it: classification, binary or regression"),
    ("train_rows", int, "Data", "rows to train on, drawn from all by the seed; all by default"),
    ("test_rows", int, "Data", "rows to evaluate on, the same for every seed, and of other data as many; all by default"),
    ("model", str, "Network", "the network: mlp, lenet5, perceptron, cnn, mean-field, vgg11, vgg19, resnet20, resnet34, densenet121; by default lenet5 for images, mlp for tables"),
    ("hidden", str, "Network", "widths of an mlp's hidden layers, such as 400,400; a mean-field network has one"),
    ("model_options", str, "Network", "the network's own options, such as activation=tanh or width=16"),
    ("init", str, "Network", "the means' first values: module, uniform, kaiming, xavier, glorot, torch, narrow; default module"),
    ("noise", str, "Network", "regression noise: sd, learnt or input; default learnt"),
    ("penalty", str, "Prior", "the prior that this penalty stands for, instead of another: l2, l1, group_lasso_rows, group_lasso_columns"),
    ("penalty_factor", float, "Prior", "factor on the penalty; 1 is theory; default 1.0"),
    ("penalty_factors", str, "Prior", "free factors of some weights instead of theory's, by name patterns, such as 0.*=1e-4,*=1e-3"),
    ("penalty_variance", str, "Prior", "the initial variance that theory's factors follow: glorot, edge-of-chaos; default glorot"),
    ("learn_prior", bool, "Prior", "set the prior's scale by empirical Bayes after each epoch"),
    ("prior", str, "Prior", "its shape: gaussian, laplace, student_t, mixture; default gaussian"),
    ("prior_scale", str, "Prior", "its sd: a number, kaiming, xavier, glorot, torch, narrow; that of a mixture's wide part; default narrow"),
    ("prior_mean", str, "Prior", "its mean: a number, or pretrained: the first values of the means; default 0.0"),
    ("prior_options", str, "Prior", "its own options, such as df=5 (student_t), pi=0.25 (mixture), slope=0.1"),
    ("posterior", str, "Posterior", "the posterior's family: mean_field, tied, point, low_rank, full (point: a frequentist network); default mean_field"),
    ("posterior_options", str, "Posterior", "its own options, such as rank=8 (low_rank) or share=layer (tied)"),
    ("rho", float, "Posterior", "initial rho of every weight: sd = softplus(rho)"),
    ("relative_sd", float, "Posterior", "initial sd relative to another, instead of rho; 0.1 by default"),
    ("relative_to", str, "Posterior", "what it is relative to: the prior's sd, or that of the means' init; default prior"),
    ("ensemble", int, "Posterior", "independently trained posteriors that are mixed; default 1"),
    ("deterministic", str, "Posterior", "weights that are not Bayesian, by name patterns such as 0.*,*.bias"),
    ("epochs", int, "Optimiser", "passes over the training data; by default 20, or as many as make 6000 steps"),
    ("batch_size", int, "Optimiser", "rows in a batch; default 100"),
    ("augmentation", str, "Optimiser", "random changes of the images in each batch: crop, flip, crop-flip"),
    ("optimizer", str, "Optimiser", "the optimiser: sgd, adam, amsgrad, adamw, adagrad, rmsprop, radam, adabound, amsbound, yellowfin, adabayes, adabayes-fp, ivon, sgld, psgld; default adabayes-fp"),
    ("lr", float, "Optimiser", "learning rate; the optimiser's own by default"),
    ("optimizer_options", str, "Optimiser", "the optimiser's own settings, such as momentum=0.8"),
    ("schedule", str, "Optimiser", "the rate's course: constant, cosine, step, polynomial, cyclic, one-cycle, plateau; default cosine"),
    ("schedule_options", str, "Optimiser", "the schedule's own settings, such as patience=5,drop=0.3 or milestones=0.5:0.75,by=epoch"),
    ("warmup", float, "Optimiser", "share of the training in which the rate is ramped up; default 0.0"),
    ("clip", float, "Optimiser", "largest norm of the gradient"),
    ("optimizer_sd", str, "Optimiser of the standard deviations", "optimiser of the standard deviations; adam by default, or the one that tunes both"),
    ("lr_sd", float, "Optimiser of the standard deviations", "learning rate of the standard deviations; by default 0.1, less where batches are many"),
    ("lr_ratio", float, "Optimiser of the standard deviations", "the same as a multiple of lr"),
    ("optimizer_sd_options", str, "Optimiser of the standard deviations", "their optimiser's own settings, added to the means' if it is theirs"),
    ("schedule_sd", str, "Optimiser of the standard deviations", "schedule of the standard deviations' rate; as the means' by default"),
    ("schedule_sd_options", str, "Optimiser of the standard deviations", "their schedule's own settings, added to the means' if it is theirs"),
    ("alternate", int, "Optimiser of the standard deviations", "epochs of means, then of standard deviations, in turn"),
    ("average", str, "Averaging", "average the iterates: swa (means), hwa (means and spread), or samples (keep them all, as samplers do)"),
    ("average_start", float, "Averaging", "share of the training before the first snapshot; default 0.5"),
    ("average_every", int, "Averaging", "steps between snapshots; an epoch's by default"),
    ("average_restart", bool, "Averaging", "go on from the average after each snapshot"),
    ("covariance", str, "Averaging", "of hwa's average: total, snapshot, posterior, low_rank; default total"),
    ("average_rank", int, "Averaging", "last snapshots in hwa's low_rank covariance; default 10"),
    ("temperature", str, "Temperature", "factor on the KL: a number (1 is Bayes' rule), auto or per-weight or per-neuron; default auto"),
    ("tau", float, "Temperature", "factor of a rule: min(0.05, tau * data / weights) (auto; 0.04 by default), tau * data / weights (per-weight; 1), tau * data / neurons (per-neuron; 1)"),
    ("temperature_warmup", float, "Temperature", "epochs in which the temperature is ramped up from 0; default 0.0"),
    ("temperature_warmup_shape", str, "Temperature", "shape of that ramp: linear or cosine; default linear"),
    ("kl_decay", float, "Temperature", "lam: how an epoch's KL is shared by its batches; 0 leaves it out; default 1.0"),
    ("samples", int, "Gradient", "weight samples in a step; default 1"),
    ("estimator", str, "Gradient", "how a pass is made random: sample, local, flipout; default sample"),
    ("gradient", str, "Gradient", "how the KL enters the gradient: analytic, total, path, score; by default the first there is"),
    ("baseline", str, "Gradient", "what reduces the score's variance: moving, leave_one_out"),
    ("rank_noise", str, "Gradient", "noise of several processes (torchrun): shared, as in one, or each its own; default shared"),
    ("patience", int, "Stopping, validation and seed", "epochs without a better validation nll before stopping; the best weights are then restored"),
    ("val_samples", int, "Stopping, validation and seed", "weight samples in each validation; default 8"),
    ("seed", int, "Stopping, validation and seed", "seed of all randomness; default 0"),
    ("val_fraction", float, "Stopping, validation and seed", "share of the training data held out; default 0.0"),
)
