"""From a raw .csv to intervals: pandas, text and gaps, a pipeline, cross-validation, a search, a file.

Each part can be a cell of a notebook. The table is made here, as a dealer in homes might have it: towns, missing sizes,
a garden or none, the day of the sale.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split

import posterity as pt


def raw_csv(rows: int) -> str:
    """A table with `;` and decimal points, gaps, and prices in thousands."""
    rng = np.random.default_rng(0)
    size = rng.uniform(30, 150, rows)
    town = rng.choice(["Bonn", "Kiel", "Ulm"], rows, p=[0.5, 0.3, 0.2])
    garden = rng.random(rows) < 0.4
    sold = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, rows), unit="D")
    level = pd.Series(town).map({"Bonn": 3.0, "Kiel": 2.5, "Ulm": 4.0}).to_numpy()
    price = level * size + 40 * garden + rng.normal(0, 10 + 0.1 * size)
    table = pd.DataFrame({"sold": sold, "size": size.round(1), "town": town, "garden": garden, "price": price.round(1)})
    table.loc[rng.random(rows) < 0.1, "size"] = np.nan
    table.loc[rng.random(rows) < 0.05, "town"] = None
    text: str = table.to_csv(sep=";", index=False)
    return text


def read(path: Path) -> tuple[pd.DataFrame, pd.Series]:
    """Inputs and prices. What a date means is for people to say: here the market's drift and the season."""
    homes = pd.read_csv(path, sep=";", parse_dates=["sold"])
    homes["days"] = (homes["sold"] - homes["sold"].min()).dt.days
    homes["month"] = homes["sold"].dt.month.astype("category")
    return homes.drop(columns=["sold", "price"]), homes["price"]


def main(rows: int, epochs: int) -> None:
    folder = Path(tempfile.mkdtemp())
    (folder / "homes.csv").write_text(raw_csv(rows))
    homes, prices = read(folder / "homes.csv")
    print(homes.head(3).to_string(), "\n")

    regressor = pt.BayesianRegressor(model=(32,), epochs=epochs, lr=0.02, noise="input", random_state=0)
    scores = cross_val_score(regressor, homes, prices, cv=3)
    print(f"R2 by three-fold cross-validation: {scores.mean():.3f} (folds: {np.round(scores, 3).tolist()})")

    search = GridSearchCV(regressor, {"model": [(8,), (32,)]}, cv=2).fit(homes, prices)
    print(f"best network of the search: hidden layers {search.best_params_['model']}")

    known, new, known_prices, new_prices = train_test_split(homes, prices, random_state=0)
    regressor.fit(known, known_prices)
    low, high = regressor.predict_interval(new, level=0.9)
    inside = ((low <= new_prices) & (new_prices <= high)).mean()
    print(
        f"90 % intervals hold {inside:.0%} of {len(new)} new prices, and are {np.mean(high - low):.0f} wide on average"
    )

    mean, sd = regressor.predict(new.head(3), return_std=True)
    shown = new.head(3).assign(price=new_prices.head(3), predicted=mean.round(1), sd=sd.round(1))
    print(shown.to_string(), "\n")

    odd = new.head(1).assign(size=[400.0], town=["Atlantis"])
    apart = regressor.predict_distribution(pd.concat([new.head(1), odd]))
    usual, strange = apart.epistemic[:, 0].sqrt().tolist()
    print(f"epistemic sd: {usual:.1f} for a usual home, {strange:.1f} for one unlike any other")

    regressor.save(folder / "homes.posterity")
    again = pt.BayesianRegressor.load(folder / "homes.posterity")
    same = np.array_equal(again.predict(new), regressor.predict(new))
    print(f"loaded again, without pickle: the same predictions: {same}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--epochs", type=int, default=100)
    given = parser.parse_args()
    main(given.rows, given.epochs)
