"""A closed C library as a layer of a neural network that tells two spirals apart:

    gcc -O2 -shared -fPIC -s sensors.c -o libsensors.so -lm
    PYTHONPATH=$(derivgrind config --pythondir) python3 train.py

The network has to reach an accuracy of 97 % on points that it has not seen.
"""

import sys

import torch

import derivgrind_torch

SENSORS = 4
closed = derivgrind_torch.derivgrind("./libsensors.so", "sensors")


class Sensors(torch.nn.Module):
    """The library's function for groups of four features."""

    def forward(self, x):
        return closed.apply(b"", x, x.numel()).reshape(x.shape)


def spirals(count, generator):
    """Points on two spirals, and which one they are on."""
    angle = 3.5 * torch.rand(count, generator=generator) + 0.5
    label = torch.randint(0, 2, (count,), generator=generator)
    radius = angle / 4
    turned = angle + torch.pi * label
    points = torch.stack([radius * turned.cos(), radius * turned.sin()], 1)
    return points + 0.02 * torch.randn(count, 2, generator=generator), label


torch.manual_seed(3)
generator = torch.Generator().manual_seed(4)
points, labels = spirals(200, generator)
test_points, test_labels = spirals(400, generator)
model = torch.nn.Sequential(
    torch.nn.Linear(2, 4 * SENSORS), Sensors(), torch.nn.Linear(4 * SENSORS, 4 * SENSORS), Sensors(), torch.nn.Linear(4 * SENSORS, 2)
)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
accuracy = 0.0
for epoch in range(1, 601):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(points), labels)
    loss.backward()
    optimizer.step()
    if epoch % 25 == 0:
        with torch.no_grad():
            accuracy = (model(test_points).argmax(1) == test_labels).double().mean().item()
        print(f"epoch {epoch}: loss {loss.item():.4f}, accuracy {accuracy:.3f}")
        if accuracy >= 0.97:
            break
assert accuracy >= 0.97
print("trained")
