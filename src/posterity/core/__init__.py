"""The ground everything stands on: the flat weight vector, generators, errors."""
