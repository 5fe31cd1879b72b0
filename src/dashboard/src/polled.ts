import { useQuery, type UseQueryOptions } from "@tanstack/react-query";
import { useState } from "react";

/**
 * What is asked for again and again. While there is no answer yet, each time would begin as the first did, and take
 * away for a moment what is said of the one before, and the button below it.
 */
export function usePolled<T>(options: UseQueryOptions<T>) {
  const { data, error, isPending, isPlaceholderData, refetch } = useQuery(options);
  const [last, setLast] = useState<Error | null>(null);
  const failed = error ?? (isPending ? last : null);
  if (failed !== last) setLast(failed);
  return {
    data,
    error: failed,
    isPending: isPending && failed === null,
    isPlaceholderData,
    refetch,
  };
}
