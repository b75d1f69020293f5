"""CIFAR-10: small pictures in ten classes, trained by the engine that trains on YouTube-8M.

Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
"""
