"""Deep Q-learning on a corridor: replay memory, target network, epsilon-greedy play."""

import copy
import random
from collections import deque, namedtuple

import torch
import torch.nn.functional as F
from torch import nn

random.seed(0)
torch.manual_seed(0)
Transition = namedtuple("Transition", "state action reward following done")


class Corridor:
    """Six rooms in a row; the last one pays 1, every step costs 0.02, and leaving left ends it."""

    rooms = 6

    def reset(self):
        self.room, self.steps = 2, 0
        return self.observe()

    def observe(self):
        return F.one_hot(torch.tensor(self.room), self.rooms).float()

    def step(self, action):
        self.room += 1 if action == 1 else -1
        self.steps += 1
        won, lost = self.room == self.rooms - 1, self.room < 0
        self.room = max(self.room, 0)
        reward = 1.0 if won else -0.5 if lost else -0.02
        return self.observe(), reward, won or lost or self.steps >= 20


env = Corridor()
policy = nn.Sequential(nn.Linear(Corridor.rooms, 24), nn.ReLU(), nn.Linear(24, 2))
target = copy.deepcopy(policy).requires_grad_(False)
optimizer = torch.optim.AdamW(policy.parameters(), lr=5e-3, amsgrad=True)
memory = deque(maxlen=400)


def act(state, epsilon):
    if random.random() < epsilon:
        return random.randrange(2)
    with torch.no_grad():
        return policy(state).argmax().item()


def learn():
    batch = Transition(*zip(*random.sample(memory, 32), strict=True))
    states, following = torch.stack(batch.state), torch.stack(batch.following)
    actions = torch.tensor(batch.action).unsqueeze(1)
    rewards, done = torch.tensor(batch.reward), torch.tensor(batch.done)
    values = policy(states).gather(1, actions).squeeze(1)
    with torch.no_grad():
        best = target(following).max(1).values.masked_fill(done, 0.0)
    loss = F.smooth_l1_loss(values, rewards + 0.95 * best)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(policy.parameters(), 1.0)
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), policy.parameters(), strict=True):
            slow.lerp_(fast, 0.1)


def shortfall():
    """What greedy play misses of the best return, 0.96."""
    state, total, done = env.reset(), 0.0, False
    while not done:
        state, reward, done = env.step(act(state, 0.0))
        total += reward
    return 0.96 - total


print(f"before loss {shortfall():.5f}")
for episode in range(30):
    state, done = env.reset(), False
    while not done:
        action = act(state, max(0.1, 1 - episode / 15))
        following, reward, done = env.step(action)
        memory.append(Transition(state, action, reward, following, done))
        state = following
        if len(memory) >= 32:
            learn()
    if episode % 10 == 9:
        value = policy(env.reset()).max().item()
        print(f"episode {episode} value {value:.3f} loss {shortfall():.5f}")
