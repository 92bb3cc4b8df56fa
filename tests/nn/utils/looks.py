"""Ways to take a named tuple apart."""


def spread(data, sizes, *others):
    return others, sizes, data


def matched(packed):
    match packed:
        case (data, sizes, _, _):
            return data, sizes
