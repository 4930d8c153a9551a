"""Gradients, sent back through products.

A walk over the updates meets, at each, the product of those before it; one back from the end, that of those
after it. So each factor finds the product of the others, without sorting and without a quotient.
"""

from __future__ import annotations

import numpy as np


def send_to_factors(place, updates, sent, products, to_updates):
    """Send each factor what its product is sent times the other factors, conjugated.

    Args:
        place: The element of `sent` that each update is a factor of, (N,).
        updates: (N,).
        sent: The gradients of the products, (T,).
        products: (T,), what comes before the updates; its gradients after.
        to_updates: (N,); the gradients of the updates after.
    """
    for number in range(len(place)):
        element = np.uintp(place[number])
        product = products[element]
        to_updates[number] = product
        products[element] = product * updates[number]
    products[:] = 1
    for number in range(len(place) - 1, -1, -1):
        update, element = np.uintp(number), np.uintp(place[number])
        product = products[element]
        to_updates[update] = sent[element] * np.conj(to_updates[update] * product)
        products[element] = product * updates[update]
    for number in range(len(sent)):
        element = np.uintp(number)
        products[element] = sent[element] * np.conj(products[element])


def send_to_factor_rows(place, updates, sent, products, to_updates, first, last):
    """Do what `send_to_factors` does, with rows of S, in those columns that are in first..last-1."""
    for number in range(len(place)):
        update, row = np.uintp(number), np.uintp(place[number])
        factors, others = updates[update][first:last], to_updates[update][first:last]
        befores = products[row][first:last]
        for column in range(len(factors)):
            product = befores[column]
            others[column] = product
            befores[column] = product * factors[column]
    products[:, first:last] = 1
    for number in range(len(place) - 1, -1, -1):
        update, row = np.uintp(number), np.uintp(place[number])
        factors, others = updates[update][first:last], to_updates[update][first:last]
        afters, grads = products[row][first:last], sent[row][first:last]
        for column in range(len(factors)):
            product = afters[column]
            others[column] = grads[column] * np.conj(others[column] * product)
            afters[column] = product * factors[column]
    for number in range(len(sent)):
        row = np.uintp(number)
        afters, grads = products[row][first:last], sent[row][first:last]
        for column in range(len(grads)):
            afters[column] = grads[column] * np.conj(afters[column])
