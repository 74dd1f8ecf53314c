"""skorch: networks as scikit-learn estimators, in a pipeline, a grid search, with callbacks."""

import numpy as np
import torch
from sklearn.datasets import make_classification, make_regression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import EarlyStopping, EpochScoring, LRScheduler
from torch import nn

torch.manual_seed(0)
X, y = make_classification(200, 10, n_informative=5, random_state=0)
X, y = X.astype(np.float32), y.astype(np.int64)


class Net(nn.Module):
    def __init__(self, hidden=10, outputs=2):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(10, hidden), nn.ReLU(), nn.Linear(hidden, outputs))

    def forward(self, X):
        return self.layers(X).softmax(-1)


net = NeuralNetClassifier(
    Net, max_epochs=5, lr=0.1, verbose=0, iterator_train__shuffle=True,
    callbacks=[
        EpochScoring("roc_auc", lower_is_better=False),
        LRScheduler("StepLR", step_size=2),
        EarlyStopping(patience=4),
    ],
)  # fmt: skip
net.fit(X, y)
print([f"{row['train_loss']:.4f} {row['valid_loss']:.4f}" for row in net.history])
print(f"{net.score(X, y):.3f}", net.predict_proba(X[:2]).round(3).tolist())

pipe = Pipeline([("scale", StandardScaler()), ("net", net)])
print(f"{cross_val_score(pipe, X, y, cv=3).mean():.3f}")
net.set_params(callbacks__print_log=None, train_split=False)
search = GridSearchCV(NeuralNetClassifier(Net, train_split=None, verbose=0), cv=2, scoring="accuracy",
                      param_grid={"lr": [0.01, 0.1], "module__hidden": [5, 10], "max_epochs": [3]})  # fmt: skip
search.fit(X, y)
print(search.best_params_, f"{search.best_score_:.3f}")

X, y = make_regression(100, 10, random_state=0)
X, y = X.astype(np.float32), (y / 100).astype(np.float32)[:, None]


class Line(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(10, 1)

    def forward(self, X):
        return self.linear(X)


regressor = NeuralNetRegressor(Line, optimizer=torch.optim.Adam, max_epochs=4, verbose=0, lr=0.05)
regressor.fit(X, y)
print([f"{one:.4f}" for one in regressor.history[:, "train_loss"]])


class Flat(Line):
    def forward(self, X):
        return super().forward(X).squeeze(-1)


binary = NeuralNetBinaryClassifier(Flat, max_epochs=3, verbose=0)
binary.fit(X, (y[:, 0] > 0).astype(np.float32))
print([f"{one:.4f}" for one in binary.history[:, "valid_loss"]])
print(binary)
