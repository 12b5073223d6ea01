"""The standard continual-learning methods: hard sharing with a plugin of Avalanche's.

All learn from the batches that plain hard sharing learns from, for as many steps. Importances and
penalties, the projection and what is kept in a memory are Avalanche's; where it reads samples one
by one, they are read a batch at a time instead, and where it is mistaken, the class says so.
"""
