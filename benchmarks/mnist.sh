#!/usr/bin/env bash
# LeNet-5 on full MNIST, Bayesian and frequentist, as in docs/results.md. Usage: benchmarks/mnist.sh [runs folder]
set -euo pipefail
runs="${1:-runs/mnist}"
posterity="${POSTERITY:-.venv/bin/posterity}"
settings="--dataset mnist --model lenet5 --epochs 8 --batch-size 100 --optimizer adam --lr 1e-3 --schedule cosine --prior-scale kaiming --val-fraction 0"
for kind in "bayesian --posterior mean_field --temperature 0.1 --rho -5 --lr-sd 1e-3" "frequentist --posterior point --temperature 0"; do
    read -r name options <<<"$kind"
    # shellcheck disable=SC2086
    "$posterity" train $settings $options --out "$runs/$name" --overwrite
    "$posterity" evaluate "$runs/$name" --samples 20 --ood noise --ood fashion-mnist --ood notmnist
done
