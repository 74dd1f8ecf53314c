"""Keras on its torch backend: a model trained by fit, a loop of one's own, numpy-like operations."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
import torch
from keras import layers, ops

keras.utils.set_random_seed(0)
print(keras.backend.backend())


def show(name, value):
    array = ops.convert_to_numpy(value)
    print(name, array.shape, np.round(np.asarray(array, "float64").ravel()[:4], 4).tolist())


rng = np.random.default_rng(0)
x = rng.standard_normal((48, 8, 8, 1)).astype("float32")
y = (x.mean((1, 2, 3)) > 0).astype("int64")

model = keras.Sequential(
    [
        keras.Input((8, 8, 1)),
        layers.Conv2D(4, 3, activation="relu", kernel_initializer=keras.initializers.HeNormal(1)),
        layers.BatchNormalization(),
        layers.MaxPooling2D(2),
        layers.Flatten(),
        layers.Dense(8, activation="gelu", kernel_initializer=keras.initializers.HeNormal(2)),
        layers.Dense(2, kernel_initializer=keras.initializers.HeNormal(3)),
    ]
)
print(model.count_params(), [tuple(w.shape) for w in model.weights][:3])
model.compile(
    optimizer=keras.optimizers.Adam(1e-2),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
history = model.fit(x, y, batch_size=16, epochs=3, shuffle=False, verbose=0)
print([round(value, 3) for value in history.history["loss"]])
print([round(value, 3) for value in model.evaluate(x, y, verbose=0)])
show("predicted", model.predict(x[:2], verbose=0))

# A functional model with two inputs and attention.
left = keras.Input((6, 4))
right = keras.Input((3,))
attended = layers.MultiHeadAttention(2, 2, kernel_initializer=keras.initializers.HeNormal(4))(
    left, left
)
pooled = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(attended))
joined = layers.Concatenate()([pooled, right])
both = keras.Model([left, right], layers.Dense(1, kernel_initializer="ones")(joined))
out = both([np.ones((2, 6, 4), "float32"), np.ones((2, 3), "float32")])
show("two inputs", out)

# Recurrent layers and embeddings.
sequences = keras.Sequential(
    [
        layers.Embedding(10, 4, embeddings_initializer=keras.initializers.HeNormal(5)),
        layers.LSTM(
            3,
            kernel_initializer=keras.initializers.HeNormal(6),
            recurrent_initializer=keras.initializers.HeNormal(7),
        ),
    ]
)
show("sequence", sequences(np.array([[1, 2, 3], [4, 5, 6]])))

# A loop of one's own: Keras's variables are parameters of the library below.
dense = layers.Dense(1, kernel_initializer="ones")
dense.build((None, 3))
optimizer = torch.optim.SGD(dense.parameters(), lr=0.02)
inputs = torch.arange(6.0).reshape(2, 3)
for _ in range(3):
    loss = ops.mean((dense(inputs) - 1.0) ** 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.4f}")

# Operations of its NumPy-like namespace.
a = ops.reshape(ops.arange(12, dtype="float32"), (3, 4))
show("einsum", ops.einsum("ij,kj->ik", a, a))
show("scatter", ops.scatter([[0], [2], [0]], ops.ones((3,)), (4,)))
show("segment_sum", ops.segment_sum(a[:, 0], np.array([0, 0, 1]), num_segments=2))
show("take_along_axis", ops.take_along_axis(a, ops.argsort(-a, axis=1), axis=1))
show("while", ops.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, s + i), (0, 0))[1])
show("top_k", ops.top_k(a, 2)[0])
show("qr", ops.abs(ops.qr(a)[1]))
show("one_hot", ops.one_hot(np.array([0, 2]), 3))
show("image", ops.image.resize(ops.reshape(a, (1, 3, 4, 1)), (6, 8), interpolation="nearest"))
show("slice_update", ops.slice_update(a, (0, 1), ops.zeros((2, 2))))
show("logsumexp", ops.logsumexp(a, axis=1))
show("conv", ops.conv(ops.reshape(a, (1, 3, 4, 1)), ops.ones((2, 2, 1, 1)), padding="same"))
