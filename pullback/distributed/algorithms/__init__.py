"""What is built on collectives: uneven inputs, and hooks that compress gradients."""
