"""A character model: lines of different lengths packed through an LSTM, then text drawn from it."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

torch.manual_seed(0)
LINES = [
    "the rain in spain stays mainly in the plain",
    "round the rugged rock the ragged rascal ran",
    "she sells sea shells on the sea shore",
    "how much wood would a woodchuck chuck",
    "peter piper picked a peck of pickled peppers",
    "a proper copper coffee pot",
]
VOCABULARY = sorted(set("".join(LINES)))
CODES = {letter: number + 1 for number, letter in enumerate(VOCABULARY)}  # 0 is padding


class CharModel(nn.Module):
    def __init__(self, letters, width=32):
        super().__init__()
        self.embedding = nn.Embedding(letters, 16, padding_idx=0)
        self.lstm = nn.LSTM(16, width, num_layers=2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(width, letters)

    def forward(self, codes, lengths, state=None):
        packed = pack_padded_sequence(
            self.embedding(codes), lengths, batch_first=True, enforce_sorted=False
        )
        out, state = self.lstm(packed, state)
        out, _ = pad_packed_sequence(out, batch_first=True)
        return self.head(out), state


encoded = [torch.tensor([CODES[letter] for letter in line]) for line in LINES]
inputs = pad_sequence([line[:-1] for line in encoded], batch_first=True)
targets = pad_sequence([line[1:] for line in encoded], batch_first=True)
lengths = torch.tensor([len(line) - 1 for line in encoded])

model = CharModel(len(VOCABULARY) + 1)
optimizer = torch.optim.RMSprop(model.parameters(), lr=5e-3)
criterion = nn.CrossEntropyLoss(ignore_index=0)
for step in range(12):
    optimizer.zero_grad()
    scores, _ = model(inputs, lengths)
    loss = criterion(scores.flatten(0, 1), targets.flatten())
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 3 == 0 or step == 11:
        print(f"step {step} loss {loss.item():.5f} norm {norm.item():.4f}")

model.eval()
letter, state, text = torch.tensor([[CODES["t"]]]), None, "t"
with torch.no_grad():
    for _ in range(10):
        scores, state = model(letter, torch.tensor([1]), state)
        letter = scores[:, -1, 1:].argmax(-1, keepdim=True) + 1
        text += VOCABULARY[letter.item() - 1]
print("says", repr(text))
